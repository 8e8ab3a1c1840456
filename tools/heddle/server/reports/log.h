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

std::string_view level_name(ServerEvent::Level level);  // such as "warning"
// The inverse of level_name; throws std::runtime_error for an unknown name.
ServerEvent::Level level_from(std::string_view name);
// The format named "logfmt" or "json"; throws std::runtime_error for another name.
LogFormat log_format_from(std::string_view name);
// A time in UTC, such as "2026-11-23T04:05:06.789Z".
std::string rfc3339(std::chrono::system_clock::time_point at);

// The log line of an event, with its newline: time, level, event, then the event's fields in order. Invalid
// UTF-8 becomes U+FFFD, and values are cut to kMostOfValue bytes. So hostile input can neither forge a line
// nor fill a disk at once.
std::string log_line(const ServerEvent& event, std::chrono::system_clock::time_point at, LogFormat format);
constexpr std::size_t kMostOfValue = 1024;

class Log {
 public:
  // Opens the log. Throws std::runtime_error if the file cannot be written.
  explicit Log(LogOptions options);
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  // Logs an event. Any thread may call this; it never blocks. If the pipe or disk is full, the line is lost.
  // The next line that is written comes after an event `log_lines_lost` with the number of lost lines.
  void write(const ServerEvent& event) noexcept;
  // Opens the file again, for example after logrotate has moved it. Returns false if that fails; then the
  // file that was open stays in use.
  bool reopen() noexcept;

 private:
  bool put(std::string_view line);

  const LogOptions options_;
  std::mutex mutex_;  // guards the members below; its holder locks no other mutex
  int descriptor_;
  std::size_t lost_ = 0;  // number of lines lost since the last line that was written
  bool cut_ = false;      // whether the last line was written only partly, without its newline
};

// While such an object lives, messages of the Heddle library become events `message` of the log.
class LibraryLog {
 public:
  explicit LibraryLog(Log& log);
  ~LibraryLog();
  LibraryLog(const LibraryLog&) = delete;
  LibraryLog& operator=(const LibraryLog&) = delete;
};

}  // namespace heddle::tool
