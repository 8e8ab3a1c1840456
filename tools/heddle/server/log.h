// The log of a server: one line an event, as logfmt or JSON.
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
  ServerEvent::Level level = ServerEvent::Level::info;  // events below are left out
  LogFormat format = LogFormat::logfmt;
  std::string file{};  // lines are appended; empty: stderr
};

std::string_view level_name(ServerEvent::Level level);  // "warning"
ServerEvent::Level level_from(std::string_view name);   // Throws std::runtime_error for another name.
LogFormat log_format_from(std::string_view name);       // "logfmt", "json". Throws std::runtime_error.
std::string rfc3339(std::chrono::system_clock::time_point at);  // "2026-11-23T04:05:06.789Z", UTC

// One line with its end: time, level, event, then the fields in their order. Bytes that are no UTF-8 become U+FFFD, and a
// value of more than kMostOfValue bytes is cut: what a stranger sends neither forges a line nor fills a disk at once.
std::string log_line(const ServerEvent& event, std::chrono::system_clock::time_point at, LogFormat format);
constexpr std::size_t kMostOfValue = 1024;

class Log {
 public:
  // Throws std::runtime_error for a file that cannot be written.
  explicit Log(LogOptions options);
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  // Any thread. Never waits: a line for which a full pipe or disk has no room is lost. `log_lines_lost` says how many were,
  // before the first line that is written again.
  void write(const ServerEvent& event) noexcept;
  // Opens the file again, as after logrotate has moved it. If that fails, the old one is kept; returns whether it worked.
  bool reopen() noexcept;

 private:
  bool put(std::string_view line);

  const LogOptions options_;
  std::mutex mutex_;  // guards what is below; nothing is locked while it is held
  int descriptor_;
  std::size_t lost_ = 0;  // lines, since one was written
  bool cut_ = false;      // the last that was written has no end
};

// As long as it lives, what the library has to say becomes events `message`, so that all lines are of one format.
class LibraryLog {
 public:
  explicit LibraryLog(Log& log);
  ~LibraryLog();
  LibraryLog(const LibraryLog&) = delete;
  LibraryLog& operator=(const LibraryLog&) = delete;
};

}  // namespace heddle::tool
