// The log of a server: one line per event, as logfmt or JSON.
#pragma once

#include <chrono>
#include <cstddef>
#include <mutex>
#include <string>
#include <string_view>

#include <heddle/server.h>

namespace heddle::tool {

enum class LogFormat { logfmt, json };

struct LogOptions {
  ServerEvent::Level level = ServerEvent::Level::info;  // events below this level are omitted
  LogFormat format = LogFormat::logfmt;
  std::string file{};  // file to which lines are appended; empty: stderr
};

std::string_view level_name(ServerEvent::Level level);          // "warning"
ServerEvent::Level level_from(std::string_view name);           // throws std::runtime_error for another name
LogFormat log_format_from(std::string_view name);               // "logfmt", "json"; throws std::runtime_error
std::string rfc3339(std::chrono::system_clock::time_point at);  // "2026-11-23T04:05:06.789Z", UTC

// One line with its newline: time, level, event, then the fields in order. Invalid UTF-8 becomes U+FFFD, and
// values are cut to kMostOfValue bytes: hostile input can neither forge a line nor fill a disk at once.
std::string log_line(const ServerEvent& event, std::chrono::system_clock::time_point at, LogFormat format);
constexpr std::size_t kMostOfValue = 1024;

class Log {
 public:
  // Throws std::runtime_error for a file that cannot be written.
  explicit Log(LogOptions options);
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  // Any thread. Never blocks: a line that does not fit into a full pipe or disk is lost. An event
  // `log_lines_lost` with their number precedes the next line that is written.
  void write(const ServerEvent& event) noexcept;
  // Opens the file again, for example after logrotate has moved it. False: it failed; the old file is kept.
  bool reopen() noexcept;

 private:
  bool put(std::string_view line);

  const LogOptions options_;
  std::mutex mutex_;  // guards the members below; nothing is locked while it is held
  int descriptor_;
  std::size_t lost_ = 0;  // lines lost since the last one written
  bool cut_ = false;      // whether the last line written has no newline
};

// A scope in which the library's messages become events `message` of the log, in the same format.
class LibraryLog {
 public:
  explicit LibraryLog(Log& log);
  ~LibraryLog();
  LibraryLog(const LibraryLog&) = delete;
  LibraryLog& operator=(const LibraryLog&) = delete;
};

}  // namespace heddle::tool
