#include "settings.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <unistd.h>

#include "simulate/units.h"

extern char** environ;

namespace heddle::tool {
namespace {

constexpr std::string_view kPrefix = "HEDDLE_SERVER_";
constexpr int kMostServers = 65'536, kMostConnections = 1'000'000;

[[noreturn]] void want(const std::string& value, const std::string& wanted) {
  throw std::runtime_error("'" + value + "': want " + wanted);
}

int integer_from(const std::string& value, int least, int most) {
  int number = 0;
  const char* end = value.data() + value.size();
  const auto [stop, error] = std::from_chars(value.data(), end, number);
  if (error != std::errc() || stop != end || number < least || number > most)
    want(value, "a number from " + std::to_string(least) + " to " + std::to_string(most));
  return number;
}

std::uint64_t limit_from(const std::string& value) {
  constexpr double kMost = 9007199254740992.0;  // doubles are exact up to here
  const double bytes = bytes_from(value);
  if (bytes > kMost) want(value, "at most 8 PiB");
  return static_cast<std::uint64_t>(bytes);
}

std::chrono::milliseconds timeout_from(const std::string& value) {
  const double seconds = seconds_from(value);
  if (seconds < 0.001 || seconds > 86'400.0 * 365) want(value, "a time from 1ms to a year, like 30s");
  return std::chrono::milliseconds(std::llround(seconds * 1000));
}

struct Address {
  std::string host;
  int port = 0;
};

Address address_from(const std::string& value) {
  constexpr const char* kWanted = "HOST:PORT, such as 127.0.0.1:9463 or [::1]:9463";
  const std::size_t colon = value.rfind(':');
  if (colon == std::string::npos || colon == 0) want(value, kWanted);
  const std::string host = value.substr(0, colon);
  const bool bracketed = host.front() == '[' && host.back() == ']' && host.size() > 2;
  if (!bracketed && host.find_first_of(":[] \t,/") != std::string::npos) want(value, kWanted);
  Address result{host, 0};
  try {
    result.port = integer_from(value.substr(colon + 1), 0, 65'535);
  } catch (const std::runtime_error&) {
    want(value, std::string(kWanted) + "; a port is a number up to 65535");
  }
  return result;
}

// A server has one address, which says whether connections are encrypted.
std::string listen_from(const std::string& value) {
  const std::string host = address_from(value).host;
  if (host == "0.0.0.0" || host == "[::]" || host == "*")
    want(value, "one address of this host, or an interface such as eth0:9463");
  return value;
}

std::string metrics_from(const std::string& value) {
  if (value.empty() || value == "off") return "";
  address_from(value);
  return value;
}

std::string this_host() {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  return name;
}

std::string transport_from(const std::string& value) {
  if (value != "net" && value != "zmq") want(value, "net or zmq");
  return value;
}

using Value = const std::string&;
constexpr Setting kSettings[] = {
    {"listen", "HOST:PORT", "127.0.0.1:9463",
     "where workers connect: one address of this host, or an interface; port 0: any",
     [](ServerSettings& all, Value value) { all.server.listen = listen_from(value); }},
    {"transport", "net|zmq", "net", "what carries messages; the workers' has to be the same",
     [](ServerSettings& all, Value value) { all.server.transport = transport_from(value); }},
    {"keys", "DIR", "",
     "of comm.key and comm.allowed, which heddle keygen makes; empty: where that puts them",
     [](ServerSettings& all, Value value) { all.server.keys = value; }},
    {"number", "N", "0",
     "this server's among those of the job, from 0; hostname: the number that ends this host's name",
     [](ServerSettings& all, Value value) {
       all.server.number =
           value == "hostname" ? number_in_host(this_host()) : integer_from(value, 0, kMostServers - 1);
     }},
    {"servers", "N", "1", "how many servers the job has",
     [](ServerSettings& all, Value value) { all.server.servers = integer_from(value, 1, kMostServers); }},
    {"memory-limit", "BYTES", "0", "of values, optimizer state and pushes that wait: 8GiB; 0: none",
     [](ServerSettings& all, Value value) { all.server.memory_limit = limit_from(value); }},
    {"job-memory-limit", "BYTES", "0", "the same for each job; 0: none",
     [](ServerSettings& all, Value value) { all.server.job_memory_limit = limit_from(value); }},
    {"max-connections", "N", "10000", "more are refused",
     [](ServerSettings& all, Value value) {
       all.server.max_connections = integer_from(value, 1, kMostConnections);
     }},
    {"worker-timeout", "TIME", "30s", "a worker gone for so long is left out until it comes back",
     [](ServerSettings& all, Value value) { all.server.worker_timeout = timeout_from(value); }},
    {"metrics", "HOST:PORT", "127.0.0.1:9464", "where /metrics, /healthz and /livez are served; off: nowhere",
     [](ServerSettings& all, Value value) { all.metrics = metrics_from(value); }},
    {"log-level", "LEVEL", "info", "debug, info, warning or error",
     [](ServerSettings& all, Value value) { all.log.level = level_from(value); }},
    {"log-format", "FORMAT", "logfmt", "logfmt or json",
     [](ServerSettings& all, Value value) { all.log.format = log_format_from(value); }},
    {"log-file", "FILE", "", "to which lines are appended, opened again at SIGHUP; empty: stderr",
     [](ServerSettings& all, Value value) { all.log.file = value; }},
};

bool is_setting(std::string_view name) {
  return std::any_of(std::begin(kSettings), std::end(kSettings),
                     [name](const Setting& one) { return one.name == name; });
}

std::string names() {
  std::string result;
  for (const Setting& one : kSettings) result += std::string(result.empty() ? "" : ", ") + one.name;
  return result;
}

std::string place(const SettingSources& sources, const ConfigLine& line) {
  return sources.file + ":" + std::to_string(line.line);
}

void check_lines(const SettingSources& sources, std::vector<std::string>& problems) {
  std::map<std::string_view, int> seen;
  for (const ConfigLine& line : sources.lines) {
    if (!line.problem.empty()) {
      problems.push_back(place(sources, line) + ": " + line.problem);
    } else if (!is_setting(line.name)) {
      problems.push_back(place(sources, line) + ": there is no setting '" + line.name +
                         "'; there is: " + names());
    } else if (const auto [first, added] = seen.emplace(line.name, line.line); !added) {
      problems.push_back(place(sources, line) + ": " + line.name + " is set in line " +
                         std::to_string(first->second) + " too");
    }
  }
}

SettingValue value_of(const Setting& setting, const SettingSources& sources) {
  const std::string variable = variable_of(setting);
  if (const auto flag = sources.flags.find(setting.name); flag != sources.flags.end())
    return {setting.name, flag->second, std::string("--") + setting.name};
  if (const auto found = sources.environment.find(variable);
      found != sources.environment.end() && !found->second.empty())
    return {setting.name, found->second, variable};
  for (const ConfigLine& line : sources.lines) {
    if (line.name == setting.name) return {setting.name, line.value, place(sources, line)};
  }
  return {setting.name, setting.usual, "default"};
}

const SettingValue& value(const FoundSettings& found, std::string_view name) {
  return *std::find_if(found.values.begin(), found.values.end(),
                       [name](const SettingValue& one) { return one.name == name; });
}

// "server.toml:3: number" or "--number", as far as the origin does not name the setting.
std::string who(const SettingValue& one) {
  return one.origin +
         (one.origin.find(':') == std::string::npos && one.origin != "default" ? "" : ": " + one.name);
}

void check_keys(const FoundSettings& found, std::vector<std::string>& problems) {
  const std::string& keys = found.settings.server.keys;
  if (keys.empty()) return;
  for (const char* name : {"comm.key", "comm.allowed"}) {
    std::error_code none;
    const std::filesystem::path file = std::filesystem::path(keys) / name;
    if (!std::filesystem::exists(file, none))
      problems.push_back(who(value(found, "keys")) + ": there is no " + file.string() +
                         "; heddle keygen --out " + keys + " makes it");
  }
}

void check_together(const FoundSettings& found, std::vector<std::string>& problems) {
  const ServerSettings& all = found.settings;
  if (all.server.number >= all.server.servers)
    problems.push_back(who(value(found, "number")) + ": " + std::to_string(all.server.number) + " of " +
                       std::to_string(all.server.servers) +
                       " servers; numbers begin at 0, and servers is how many");
  if (all.server.memory_limit != 0 && all.server.job_memory_limit > all.server.memory_limit)
    problems.push_back(who(value(found, "job-memory-limit")) + ": " + value(found, "job-memory-limit").value +
                       " is more than memory-limit, " + value(found, "memory-limit").value);
  if (!all.metrics.empty() && all.metrics == all.server.listen && address_from(all.metrics).port != 0)
    problems.push_back(who(value(found, "metrics")) + ": " + all.metrics + " is where workers connect");
  const std::filesystem::path folder = std::filesystem::path(all.log.file).parent_path();
  std::error_code none;
  if (!folder.empty() && !std::filesystem::is_directory(folder, none))
    problems.push_back(who(value(found, "log-file")) + ": there is no directory " + folder.string());
  check_keys(found, problems);
}

void note_variables(const SettingSources& sources, std::vector<std::string>& notes) {
  for (const auto& [variable, text] : sources.environment) {
    const bool known = variable == std::string(kPrefix) + "CONFIG" ||
                       std::any_of(std::begin(kSettings), std::end(kSettings),
                                   [&](const Setting& one) { return variable_of(one) == variable; });
    if (!known) notes.push_back(variable + " is the variable of no setting");
  }
}

}  // namespace

std::span<const Setting> server_settings() { return kSettings; }

std::string variable_of(const Setting& setting) {
  std::string result(kPrefix);
  for (const char one : std::string_view(setting.name)) {
    result += one == '-' ? '_' : static_cast<char>(one >= 'a' && one <= 'z' ? one - 'a' + 'A' : one);
  }
  return result;
}

int number_in_host(const std::string& host) {
  const std::string name = host.substr(0, host.find('.'));
  const std::size_t before = name.find_last_not_of("0123456789");
  const std::string digits = before == std::string::npos ? name : name.substr(before + 1);
  if (digits.empty()) throw std::runtime_error("hostname: '" + name + "' ends in no number");
  return integer_from(digits, 0, kMostServers - 1);
}

FoundSettings find_settings(const SettingSources& sources) {
  FoundSettings found;
  check_lines(sources, found.problems);
  for (const Setting& setting : kSettings) {
    found.values.push_back(value_of(setting, sources));
    try {
      setting.apply(found.settings, found.values.back().value);
    } catch (const std::runtime_error& error) {
      found.problems.push_back(who(found.values.back()) + ": " + error.what());
    }
  }
  if (found.problems.empty()) check_together(found, found.problems);
  note_variables(sources, found.notes);
  return found;
}

std::string settings_table(const FoundSettings& found) {
  std::size_t name = 0, text = 0;
  for (const SettingValue& one : found.values) {
    name = std::max(name, one.name.size());
    text = std::max(text, one.value.size());
  }
  std::string result;
  for (const SettingValue& one : found.values) {
    const std::string shown = one.value.empty() ? "\"\"" : one.value;
    result += one.name + std::string(name + 2 - one.name.size(), ' ') + shown +
              std::string(std::max(text, std::size_t{2}) + 2 - shown.size(), ' ') + one.origin + "\n";
  }
  return result;
}

std::map<std::string, std::string> server_environment() {
  std::map<std::string, std::string> result;
  for (char** entry = environ; *entry; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    if (text.starts_with(kPrefix) && equals != std::string_view::npos)
      result.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return result;
}

}  // namespace heddle::tool
