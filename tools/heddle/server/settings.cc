#include "settings.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <unistd.h>

#include <heddle/memory.h>

#include "simulate/units.h"

extern char** environ;

namespace heddle::tool {
namespace {

constexpr int kMostScheduled = 256;  // how many servers a scheduler can have
constexpr const char* kAuto = "auto";
constexpr int kMostServers = 65'536, kMostConnections = 1'000'000, kMostKept = 1'000'000;

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
  constexpr double kMost = 9007199254740992.0;  // 2^53: a double holds every whole number up to this one
  const double bytes = bytes_from(value);
  if (bytes > kMost) want(value, "at most 8 PiB");
  return static_cast<std::uint64_t>(bytes);
}

// Parses a list JOB=BYTES,... of memory limits of jobs. Names of jobs are printable ASCII, here without
// commas.
std::map<std::string, std::uint64_t> job_limits_from(const std::string& value) {
  std::map<std::string, std::uint64_t> limits;
  std::istringstream list(value);
  for (std::string one; std::getline(list, one, ',');) {
    const std::size_t middle = one.rfind('=');
    if (middle == std::string::npos || middle == 0) want(one, "JOB=BYTES, such as research=2GiB");
    const std::string job = one.substr(0, middle);
    if (std::any_of(job.begin(), job.end(), [](char letter) { return letter < ' ' || letter > '~'; }))
      want(one, "the name of a job, in printable ASCII");
    if (!limits.emplace(job, limit_from(one.substr(middle + 1))).second) want(value, "each job once");
  }
  if (value.ends_with(',')) want(value, "JOB=BYTES,..., without a comma at the end");
  return limits;
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

// Checks the address at which a server listens. It must be one address of the host, because whether
// connections are encrypted depends on it.
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

std::string scheduler_from(const std::string& value) {
  if (!value.empty() && address_from(value).port == 0)
    want(value, "HOST:PORT of the scheduler; port 0 is none");
  return value;
}

bool is_url(const std::string& text) {
  const std::size_t scheme = text.starts_with("https://") ? 8 : text.starts_with("http://") ? 7 : 0;
  try {
    return scheme > 0 && address_from(text.substr(scheme)).port != 0;
  } catch (const std::runtime_error&) {
    return false;
  }
}

// Checks a comma-separated list of URLs of etcd's members.
std::string urls_from(const std::string& value) {
  for (std::size_t begin = 0; !value.empty() && begin <= value.size();) {
    const std::size_t end = std::min(value.find(',', begin), value.size());
    if (!is_url(value.substr(begin, end - begin)))
      want(value, "addresses of etcd's members, such as http://a:2379,http://b:2379");
    begin = end + 1;
  }
  return value;
}

std::string prefix_from(const std::string& value) {
  if (value.empty() || value.back() == '/')
    want(value, "a name such as /heddle/mine, without a '/' at its end");
  return value;
}

std::chrono::milliseconds lease_from(const std::string& value) {
  const std::chrono::milliseconds lease = timeout_from(value);
  if (lease < std::chrono::seconds(2) || lease > std::chrono::minutes(10))
    want(value, "a time from 2s to 10min");
  return lease;
}

std::chrono::milliseconds timeout_or_never(const std::string& value) {
  return value == "0" || value == "0s" ? std::chrono::milliseconds(0) : timeout_from(value);
}

bool answer_from(const std::string& value) {
  if (value != "yes" && value != "no") want(value, "yes or no");
  return value == "yes";
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
    {"scheduler", "HOST:PORT", "",
     "where heddle scheduler is; it gives number and servers, unless they are set; empty: none",
     [](ServerSettings& all, Value value) { all.server.scheduler = scheduler_from(value); }},
    {"etcd", "URL,...", "", "where to look for the scheduler that leads; empty: there is no etcd",
     [](ServerSettings& all, Value value) { all.server.etcd.urls = urls_from(value); }},
    {"etcd-prefix", "NAME", "/heddle/default", "of this cluster's keys in etcd; each cluster needs its own",
     [](ServerSettings& all, Value value) { all.server.etcd.prefix = prefix_from(value); }},
    {"etcd-ca", "FILE", "", "with https: whose certificates are trusted; empty: those that the system trusts",
     [](ServerSettings& all, Value value) { all.server.etcd.ca = value; }},
    {"etcd-cert", "FILE", "", "with https: the certificate that is shown to etcd; empty: none",
     [](ServerSettings& all, Value value) { all.server.etcd.certificate = value; }},
    {"etcd-key", "FILE", "", "with https: the key of that certificate",
     [](ServerSettings& all, Value value) { all.server.etcd.key = value; }},
    {"replicas", "N", "auto",
     "copies of each part of the keys, on different servers: 1 or 2; auto: 2 if a scheduler has two servers "
     "or more",
     [](ServerSettings& all, Value value) {
       all.server.replicas = value == "auto" ? 0 : integer_from(value, 1, 2);
     }},
    {"memory-limit", "BYTES", "auto",
     "of values, optimizer state and pushes that wait: 8GiB; 0: none; auto: 80 % of the memory of the host, "
     "or of the control group, divided by servers-on-host",
     [](ServerSettings& all, Value value) {
       if (value != kAuto) all.server.memory_limit = limit_from(value);
     }},
    {"servers-on-host", "N", "1", "how many servers share that memory; heddle launch says it",
     [](ServerSettings& all, Value value) { all.servers_on_host = integer_from(value, 1, kMostServers); }},
    {"job-memory-limit", "BYTES", "0", "the same for each job; 0: none",
     [](ServerSettings& all, Value value) { all.server.job_memory_limit = limit_from(value); }},
    {"job-memory-limits", "JOB=BYTES,...", "",
     "for jobs of these names instead, HEDDLE_JOB of their workers: research=2GiB,nightly=512MiB; 0: none",
     [](ServerSettings& all, Value value) { all.server.job_memory_limits = job_limits_from(value); }},
    {"max-connections", "N", "10000", "more are refused",
     [](ServerSettings& all, Value value) {
       all.server.max_connections = integer_from(value, 1, kMostConnections);
     }},
    {"worker-timeout", "TIME", "30s", "a worker gone for so long is left out until it comes back",
     [](ServerSettings& all, Value value) { all.server.worker_timeout = timeout_from(value); }},
    {"snapshots", "DIR", "", "for snapshots of the state, which the server goes on with; empty: none",
     [](ServerSettings& all, Value value) { all.server.snapshots = value; }},
    {"snapshot-interval", "TIME", "60s", "between two snapshots",
     [](ServerSettings& all, Value value) { all.server.snapshot_interval = timeout_from(value); }},
    {"snapshots-kept", "N", "3", "older snapshots are removed",
     [](ServerSettings& all, Value value) { all.server.snapshots_kept = integer_from(value, 1, kMostKept); }},
    {"metrics", "HOST:PORT", "127.0.0.1:9464",
     "where /metrics, /healthz, /readyz and /livez are served; off: nowhere",
     [](ServerSettings& all, Value value) { all.metrics = metrics_from(value); }},
    {"log-level", "LEVEL", "info", "debug, info, warning or error",
     [](ServerSettings& all, Value value) { all.log.level = level_from(value); }},
    {"log-format", "FORMAT", "logfmt", "logfmt or json",
     [](ServerSettings& all, Value value) { all.log.format = log_format_from(value); }},
    {"log-file", "FILE", "", "to which lines are appended, opened again at SIGHUP; empty: stderr",
     [](ServerSettings& all, Value value) { all.log.file = value; }},
};

constexpr Setting kSchedulerSettings[] = {
    {"listen", "HOST:PORT", "127.0.0.1:9462",
     "where servers and workers connect: one address of this host, or an interface; port 0: any",
     [](ServerSettings& all, Value value) { all.scheduler.listen = listen_from(value); }},
    {"transport", "net|zmq", "net", "what carries messages; that of servers and workers has to be the same",
     [](ServerSettings& all, Value value) { all.scheduler.transport = transport_from(value); }},
    {"keys", "DIR", "",
     "of comm.key and comm.allowed, which heddle keygen makes; empty: where that puts them",
     [](ServerSettings& all, Value value) { all.scheduler.keys = value; }},
    {"servers", "N", "1", "how many servers there are",
     [](ServerSettings& all, Value value) {
       all.scheduler.servers = integer_from(value, 1, kMostScheduled);
     }},
    {"workers", "N", "0", "how many workers each job has; 0: as many as they say",
     [](ServerSettings& all, Value value) { all.scheduler.workers = integer_from(value, 0, kMostServers); }},
    {"state", "FILE", "",
     "keeps which server has what, so that the scheduler can be started anew; empty: nothing is kept",
     [](ServerSettings& all, Value value) { all.scheduler.state_file = value; }},
    {"etcd", "URL,...", "",
     "keeps it in etcd instead: several schedulers agree on one that leads, the others stand by; empty: no "
     "etcd",
     [](ServerSettings& all, Value value) { all.scheduler.etcd.urls = urls_from(value); }},
    {"etcd-prefix", "NAME", "/heddle/default", "of this cluster's keys in etcd; each cluster needs its own",
     [](ServerSettings& all, Value value) { all.scheduler.etcd.prefix = prefix_from(value); }},
    {"etcd-ca", "FILE", "", "with https: whose certificates are trusted; empty: those that the system trusts",
     [](ServerSettings& all, Value value) { all.scheduler.etcd.ca = value; }},
    {"etcd-cert", "FILE", "", "with https: the certificate that is shown to etcd; empty: none",
     [](ServerSettings& all, Value value) { all.scheduler.etcd.certificate = value; }},
    {"etcd-key", "FILE", "", "with https: the key of that certificate",
     [](ServerSettings& all, Value value) { all.scheduler.etcd.key = value; }},
    {"etcd-lease", "TIME", "3s",
     "after which another scheduler leads, when etcd has not heard of the one that did",
     [](ServerSettings& all, Value value) { all.scheduler.etcd.lease = lease_from(value); }},
    {"server-timeout", "TIME", "3s", "a server that is silent for so long is replaced by its backup",
     [](ServerSettings& all, Value value) { all.scheduler.server_timeout = timeout_from(value); }},
    {"grace", "TIME", "100ms", "how long a connection that has ended may take to come back",
     [](ServerSettings& all, Value value) { all.scheduler.grace = timeout_from(value); }},
    {"start-timeout", "TIME", "120s",
     "how long to wait for all servers; after that those that have come end with an error",
     [](ServerSettings& all, Value value) { all.scheduler.start_timeout = timeout_from(value); }},
    {"lost-after", "TIME", "0s",
     "after which a part whose only server is gone begins anew on another one; 0s: never, it waits for that "
     "server",
     [](ServerSettings& all, Value value) { all.scheduler.lost_after = timeout_or_never(value); }},
    {"once", "yes|no", "no", "end, and let the servers end, when all workers have left",
     [](ServerSettings& all, Value value) { all.scheduler.once = answer_from(value); }},
    {"max-connections", "N", "10000", "more are refused",
     [](ServerSettings& all, Value value) {
       all.scheduler.max_connections = integer_from(value, 1, kMostConnections);
     }},
    {"metrics", "HOST:PORT", "127.0.0.1:9465",
     "where /metrics, /healthz, /readyz and /livez are served; off: nowhere",
     [](ServerSettings& all, Value value) { all.metrics = metrics_from(value); }},
    {"log-level", "LEVEL", "info", "debug, info, warning or error",
     [](ServerSettings& all, Value value) { all.log.level = level_from(value); }},
    {"log-format", "FORMAT", "logfmt", "logfmt or json",
     [](ServerSettings& all, Value value) { all.log.format = log_format_from(value); }},
    {"log-file", "FILE", "", "to which lines are appended, opened again at SIGHUP; empty: stderr",
     [](ServerSettings& all, Value value) { all.log.file = value; }},
};

bool is_setting(std::string_view name, const SettingsTable& table) {
  return std::any_of(table.settings.begin(), table.settings.end(),
                     [name](const Setting& one) { return one.name == name; });
}

std::string names(const SettingsTable& table) {
  std::string result;
  for (const Setting& one : table.settings) result += std::string(result.empty() ? "" : ", ") + one.name;
  return result;
}

std::string place(const SettingSources& sources, const ConfigLine& line) {
  return sources.file + ":" + std::to_string(line.line);
}

void check_lines(const SettingSources& sources, const SettingsTable& table,
                 std::vector<std::string>& problems) {
  std::map<std::string_view, int> seen;
  for (const ConfigLine& line : sources.lines) {
    if (!line.problem.empty()) {
      problems.push_back(place(sources, line) + ": " + line.problem);
    } else if (!is_setting(line.name, table)) {
      problems.push_back(place(sources, line) + ": there is no setting '" + line.name +
                         "'; there is: " + names(table));
    } else if (const auto [first, added] = seen.emplace(line.name, line.line); !added) {
      problems.push_back(place(sources, line) + ": " + line.name + " is set in line " +
                         std::to_string(first->second) + " too");
    }
  }
}

SettingValue value_of(const Setting& setting, const SettingSources& sources, const SettingsTable& table) {
  const std::string variable = variable_of(setting, table);
  if (const auto flag = sources.flags.find(setting.name); flag != sources.flags.end())
    return {setting.name, flag->second, std::string("--") + setting.name};
  if (const auto found = sources.environment.find(variable);
      found != sources.environment.end() && !found->second.empty())
    return {setting.name, found->second, variable};
  for (const ConfigLine& line : sources.lines) {
    if (line.name == setting.name) return {setting.name, line.value, place(sources, line)};
  }
  if (const auto told = sources.launcher.find(setting.name); told != sources.launcher.end())
    return {setting.name, told->second.first, told->second.second};
  return {setting.name, setting.usual, "default"};
}

const SettingValue& value(const FoundSettings& found, std::string_view name) {
  return *std::find_if(found.values.begin(), found.values.end(),
                       [name](const SettingValue& one) { return one.name == name; });
}

// How messages name a setting: "server.toml:3: number", or the origin alone if it names the setting:
// "--number".
std::string who(const SettingValue& one) {
  return one.origin +
         (one.origin.find(':') == std::string::npos && one.origin != "default" ? "" : ": " + one.name);
}

void check_keys(const FoundSettings& found, std::vector<std::string>& problems) {
  const std::string& keys = value(found, "keys").value;
  if (keys.empty()) return;
  for (const char* name : {"comm.key", "comm.allowed"}) {
    std::error_code none;
    const std::filesystem::path file = std::filesystem::path(keys) / name;
    if (!std::filesystem::exists(file, none))
      problems.push_back(who(value(found, "keys")) + ": there is no " + file.string() +
                         "; heddle keygen --out " + keys + " makes it");
  }
}

// Checks that the directory of a setting's file exists.
void check_folder(const FoundSettings& found, const char* setting, std::vector<std::string>& problems) {
  const std::filesystem::path folder = std::filesystem::path(value(found, setting).value).parent_path();
  std::error_code none;
  if (!folder.empty() && !std::filesystem::is_directory(folder, none))
    problems.push_back(who(value(found, setting)) + ": there is no directory " + folder.string());
}

void check_metrics(const FoundSettings& found, const std::string& listen,
                   std::vector<std::string>& problems) {
  const std::string& metrics = found.settings.metrics;
  if (!metrics.empty() && metrics == listen && address_from(metrics).port != 0)
    problems.push_back(who(value(found, "metrics")) + ": " + metrics + " is where workers connect");
}

// Leaves the server's number and the number of servers to the scheduler if no setting gives them.
void leave_to_scheduler(FoundSettings& found) {
  ServerOptions& server = found.settings.server;
  if (value(found, "number").origin == "default") server.number = -1;
  if (value(found, "servers").origin == "default") server.servers = 0;
}

// Ignores HEDDLE_STORE_ETCD, which is set for all processes of a job, if this process has the setting
// `other`, which is used instead of etcd.
void prefer_to_etcd(FoundSettings& found, EtcdOptions& etcd, const char* other) {
  const auto told = std::find_if(found.values.begin(), found.values.end(),
                                 [](const SettingValue& one) { return one.name == "etcd"; });
  if (told->origin != "HEDDLE_STORE_ETCD" || value(found, other).origin == "default") return;
  found.notes.push_back("HEDDLE_STORE_ETCD is not used: " + who(value(found, other)) + " is set");
  etcd.urls.clear();
  *told = {"etcd", "", "default"};
}

// Reports two settings that exclude each other.
void check_one_of(FoundSettings& found, const char* one, const char* other) {
  if (!value(found, one).value.empty() && !value(found, other).value.empty())
    found.problems.push_back(who(value(found, one)) + ": " + other + " is set, too (" +
                             value(found, other).origin + "); set one of them");
}

void check_certificate(FoundSettings& found) {
  for (const char* const name : {"etcd-ca", "etcd-cert", "etcd-key"}) {
    const SettingValue& file = value(found, name);
    if (!file.value.empty() && ::access(file.value.c_str(), R_OK) != 0)
      found.problems.push_back(who(file) + ": " + file.value + " cannot be read: " + std::strerror(errno));
  }
  if (value(found, "etcd-cert").value.empty() != value(found, "etcd-key").value.empty())
    found.problems.push_back(who(value(found, "etcd-cert")) + ": etcd-cert and etcd-key need each other");
  const bool any = !(value(found, "etcd-ca").value + value(found, "etcd-cert").value).empty();
  if (any && ("," + value(found, "etcd").value).find(",http://") != std::string::npos)
    found.problems.push_back(who(value(found, "etcd")) +
                             ": certificates need addresses that begin with https://");
}

void find_memory_limit(FoundSettings& found) {
  ServerSettings& all = found.settings;
  const SettingValue& limit = value(found, "memory-limit");
  all.memory_limit = all.server.memory_limit == 0 ? "none" : std::to_string(all.server.memory_limit);
  if (limit.value != kAuto) return;
  const std::size_t memory = heddle::usable_memory();
  const auto servers = static_cast<std::size_t>(all.servers_on_host);
  all.server.memory_limit = memory / 5 * 4 / servers;
  all.memory_limit = std::to_string(all.server.memory_limit) + ": 80 % of " + std::to_string(memory);
  if (servers > 1) all.memory_limit += ", for one of " + std::to_string(servers) + " servers on the host";
}

void check_server(FoundSettings& found) {
  find_memory_limit(found);
  prefer_to_etcd(found, found.settings.server.etcd, "scheduler");
  std::vector<std::string>& problems = found.problems;
  const ServerSettings& all = found.settings;
  const bool scheduled = !all.server.scheduler.empty() || !all.server.etcd.urls.empty();
  check_one_of(found, "scheduler", "etcd");
  check_certificate(found);
  if (scheduled) leave_to_scheduler(found);
  if (!scheduled && all.server.replicas > 1)
    problems.push_back(who(value(found, "replicas")) +
                       ": copies need a scheduler, which says who has them: "
                       "--scheduler HOST:PORT of heddle scheduler, or --etcd");
  if (all.server.number >= all.server.servers && all.server.servers > 0)
    problems.push_back(who(value(found, "number")) + ": " + std::to_string(all.server.number) + " of " +
                       std::to_string(all.server.servers) +
                       " servers; numbers begin at 0, and servers is how many");
  const bool is_limited = all.server.memory_limit != 0 && value(found, "memory-limit").value != kAuto;
  if (is_limited && all.server.job_memory_limit > all.server.memory_limit)
    problems.push_back(who(value(found, "job-memory-limit")) + ": " + value(found, "job-memory-limit").value +
                       " is more than memory-limit, " + value(found, "memory-limit").value);
  for (const auto& [job, limit] : all.server.job_memory_limits) {
    if (is_limited && limit > all.server.memory_limit)
      problems.push_back(who(value(found, "job-memory-limits")) + ": that of " + job +
                         " is more than memory-limit, " + value(found, "memory-limit").value);
  }
  check_metrics(found, all.server.listen, problems);
  check_folder(found, "log-file", problems);
  const std::string& snapshots = all.server.snapshots;
  std::error_code none;
  if (std::filesystem::exists(snapshots, none) && !std::filesystem::is_directory(snapshots, none))
    problems.push_back(who(value(found, "snapshots")) + ": " + snapshots + " is no directory");
  check_keys(found, problems);
}

void check_scheduler(FoundSettings& found) {
  for (const char* const one : {"state", "once"}) prefer_to_etcd(found, found.settings.scheduler.etcd, one);
  const StoreSchedulerOptions& scheduler = found.settings.scheduler;
  if (scheduler.grace > scheduler.server_timeout)
    found.problems.push_back(who(value(found, "grace")) + ": " + value(found, "grace").value +
                             " is more than server-timeout, " + value(found, "server-timeout").value);
  check_one_of(found, "state", "etcd");
  check_certificate(found);
  if (scheduler.once && !scheduler.etcd.urls.empty())
    found.problems.push_back(who(value(found, "once")) +
                             ": with etcd, schedulers that stand by would not hear that the job is over");
  if (scheduler.state_file.empty() && scheduler.etcd.urls.empty())
    found.notes.push_back(
        "neither state nor etcd is set: a scheduler that is started anew does not know its servers any "
        "longer");
  check_metrics(found, scheduler.listen, found.problems);
  check_folder(found, "log-file", found.problems);
  check_folder(found, "state", found.problems);
  check_keys(found, found.problems);
}

void note_variables(const SettingSources& sources, const SettingsTable& table,
                    std::vector<std::string>& notes) {
  for (const auto& [variable, text] : sources.environment) {
    const bool known = variable == std::string(table.prefix) + "CONFIG" ||
                       std::any_of(table.settings.begin(), table.settings.end(),
                                   [&](const Setting& one) { return variable_of(one, table) == variable; });
    if (!known) notes.push_back(variable + " is the variable of no setting");
  }
}

}  // namespace

const SettingsTable& server_table() {
  static constexpr SettingsTable table{"HEDDLE_SERVER_", kSettings, &check_server};
  return table;
}

const SettingsTable& scheduler_table() {
  static constexpr SettingsTable table{"HEDDLE_SCHEDULER_", kSchedulerSettings, &check_scheduler};
  return table;
}

std::span<const Setting> server_settings() { return kSettings; }

std::string variable_of(const Setting& setting, const SettingsTable& table) {
  std::string result(table.prefix);
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

FoundSettings find_settings(const SettingSources& sources, const SettingsTable& table) {
  FoundSettings found;
  check_lines(sources, table, found.problems);
  for (const Setting& setting : table.settings) {
    found.values.push_back(value_of(setting, sources, table));
    try {
      setting.apply(found.settings, found.values.back().value);
    } catch (const std::runtime_error& error) {
      found.problems.push_back(who(found.values.back()) + ": " + error.what());
    }
  }
  if (found.problems.empty()) table.check(found);
  note_variables(sources, table, found.notes);
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

std::map<std::string, std::string> settings_environment(const SettingsTable& table) {
  std::map<std::string, std::string> result;
  for (char** entry = environ; *entry; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    if (text.starts_with(table.prefix) && equals != std::string_view::npos)
      result.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return result;
}

}  // namespace heddle::tool
