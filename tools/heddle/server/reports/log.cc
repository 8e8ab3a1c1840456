#include "log.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdexcept>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include <heddle/log.h>

namespace heddle::tool {
namespace {

using Level = ServerEvent::Level;

constexpr std::string_view kLevels[] = {"debug", "info", "warning", "error"};
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // the replacement character U+FFFD in UTF-8

// The length of the UTF-8 sequence at the beginning of the text; 0 if it is invalid, which includes overlong
// forms and surrogates.
std::size_t sequence(std::string_view text) {
  const auto byte = [&text](std::size_t at) -> unsigned {
    return at < text.size() ? static_cast<unsigned char>(text[at]) : 0u;
  };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xC2 && first < 0xE0 ? 2 : first >= 0xE0 && first < 0xF0 ? 3 : 4;
  if (first < 0xC2 || first > 0xF4) return 0;
  for (std::size_t at = 1; at < length; ++at) {
    if ((byte(at) & 0xC0u) != 0x80) return 0;
  }
  const unsigned second = byte(1);
  const bool wrong = (first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) ||
                     (first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F);
  return wrong ? 0 : length;
}

std::string clean(std::string_view text) {
  std::string result;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t length = sequence(text.substr(at));
    if (result.size() + (length ? length : kReplacement.size()) > kMostOfValue) return result + "...";
    result += length ? text.substr(at, length) : kReplacement;
    at += length ? length : 1;
  }
  return result;
}

bool is_plain(char one) {
  const auto byte = static_cast<unsigned char>(one);
  return byte > ' ' && byte != 0x7F && one != '"' && one != '=' && one != '\\';
}

std::string quoted(const std::string& value) {
  std::string result = "\"";
  for (const char one : value) {
    const auto byte = static_cast<unsigned char>(one);
    if (one == '"' || one == '\\') {
      result += std::string("\\") + one;
    } else if (one == '\n' || one == '\r' || one == '\t') {
      result += one == '\n' ? "\\n" : one == '\r' ? "\\r" : "\\t";
    } else if (byte < ' ' || byte == 0x7F) {
      char text[8];
      std::snprintf(text, sizeof text, "\\u%04x", byte);
      result += text;
    } else {
      result += one;
    }
  }
  return result + "\"";
}

std::string logfmt_value(const std::string& value) {
  for (const char one : value) {
    if (!is_plain(one)) return quoted(value);
  }
  return value.empty() ? "\"\"" : value;
}

// Makes a field name valid: logfmt has no quotes in names, so other characters become '_'.
std::string field_name(std::string name) {
  for (char& one : name) {
    const bool good = (one >= 'a' && one <= 'z') || (one >= 'A' && one <= 'Z') ||
                      (one >= '0' && one <= '9') || one == '_' || one == '-' || one == '.';
    if (!good) one = '_';
  }
  const bool taken = name == "time" || name == "level" || name == "event";
  return name.empty() ? "_" : taken ? name + "_" : name;
}

std::string logfmt_line(const ServerEvent& event, const std::string& time) {
  std::string line = "time=" + time + " level=" + std::string(level_name(event.level)) +
                     " event=" + logfmt_value(clean(event.name));
  for (const auto& [name, value] : event.fields)
    line += " " + field_name(name) + "=" + logfmt_value(clean(value));
  return line + "\n";
}

std::string json_line(const ServerEvent& event, const std::string& time) {
  nlohmann::ordered_json line = {
      {"time", time}, {"level", level_name(event.level)}, {"event", clean(event.name)}};
  for (const auto& [name, value] : event.fields) line[field_name(name)] = clean(value);
  return line.dump() + "\n";
}

int open_log(const std::string& file) {
  if (file.empty()) return STDERR_FILENO;
  return ::open(file.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0640);
}

}  // namespace

std::string_view level_name(Level level) { return kLevels[static_cast<std::size_t>(level)]; }

Level level_from(std::string_view name) {
  for (std::size_t level = 0; level < std::size(kLevels); ++level) {
    if (kLevels[level] == name) return static_cast<Level>(level);
  }
  throw std::runtime_error("'" + std::string(name) + "': want debug, info, warning or error");
}

LogFormat log_format_from(std::string_view name) {
  if (name == "logfmt") return LogFormat::logfmt;
  if (name == "json") return LogFormat::json;
  throw std::runtime_error("'" + std::string(name) + "': want logfmt or json");
}

std::string rfc3339(std::chrono::system_clock::time_point at) {
  const auto since = std::chrono::floor<std::chrono::milliseconds>(at).time_since_epoch();
  const auto seconds = std::chrono::floor<std::chrono::seconds>(since);
  const std::time_t whole = seconds.count();
  std::tm parts{};
  ::gmtime_r(&whole, &parts);
  char text[64];
  const std::size_t length = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  std::snprintf(text + length, sizeof text - length, ".%03dZ", static_cast<int>((since - seconds).count()));
  return text;
}

std::string log_line(const ServerEvent& event, std::chrono::system_clock::time_point at, LogFormat format) {
  return format == LogFormat::json ? json_line(event, rfc3339(at)) : logfmt_line(event, rfc3339(at));
}

Log::Log(LogOptions options) : options_(std::move(options)), descriptor_(open_log(options_.file)) {
  if (descriptor_ < 0)
    throw std::runtime_error("cannot write the log " + options_.file + ": " + std::strerror(errno));
}

Log::~Log() {
  if (!options_.file.empty()) ::close(descriptor_);
}

void Log::write(const ServerEvent& event) noexcept {
  if (event.level < options_.level) return;
  const std::lock_guard lock(mutex_);
  try {
    const auto now = std::chrono::system_clock::now();
    if (lost_ > 0) {
      const ServerEvent lost{Level::warning, "log_lines_lost", {{"lines", std::to_string(lost_)}}};
      if (put((cut_ ? "\n" : "") + log_line(lost, now, options_.format))) lost_ = 0, cut_ = false;
    }
    if (lost_ > 0 || !put(log_line(event, now, options_.format))) ++lost_;
  } catch (...) {  // there is no memory to format the line: it is lost
    ++lost_;
  }
}

// Writes a line in pieces of PIPE_BUF bytes, which a pipe or socket that is ready takes without blocking.
// Returns false if the line was not written, or only partly.
bool Log::put(std::string_view line) {
  for (bool first = true; !line.empty(); first = false) {
    pollfd ready{descriptor_, POLLOUT, 0};
    ssize_t written = -1;
    if (::poll(&ready, 1, 0) > 0)
      written = ::write(descriptor_, line.data(), std::min<std::size_t>(line.size(), PIPE_BUF));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      cut_ = cut_ || !first;
      return false;
    }
    line.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

bool Log::reopen() noexcept {
  if (options_.file.empty()) return true;
  const int next = open_log(options_.file);
  if (next < 0) return false;
  const std::lock_guard lock(mutex_);
  ::close(descriptor_);
  descriptor_ = next;
  return true;
}

LibraryLog::LibraryLog(Log& log) {
  set_log([&log](std::string_view text) {
    log.write({ServerEvent::Level::warning, "message", {{"text", std::string(text)}}});
  });
}

LibraryLog::~LibraryLog() { set_log({}); }

}  // namespace heddle::tool
