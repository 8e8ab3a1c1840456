// The file of a trace: the JSON array of the Chrome trace format. Viewers read a file that was cut off, up to that
// point.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_set>

#include "trace/trace_arrows.h"
#include "trace/trace_clock.h"

namespace heddle::trace {

// Appends text as a JSON string, with quotes. The result is valid JSON and UTF-8 for any text.
void append_json_string(std::string& out, std::string_view text);

// The rank of this process in its job, from the variables that launchers set; -1 if there is none.
std::int64_t rank_of_process();

// Not thread-safe. An error or a full disk ends the file, never the program.
class TraceFile {
 public:
  // Throws Error if path cannot be written or another process is writing it.
  TraceFile(std::string path, std::uint64_t most_bytes);
  ~TraceFile();
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  void begin(std::uint64_t unix_nanoseconds);  // unix_nanoseconds: the Unix time at the clock's zero
  void add(const Record& record, const Clock& clock);
  void end(std::uint64_t records, std::uint64_t dropped);
  void flush();
  bool open() const { return error_.empty(); }
  const std::string& path() const { return path_; }
  const std::string& error() const { return error_; }
  std::uint64_t bytes() const { return written_; }

 private:
  void begin_event(std::string_view phase, std::string_view category);
  void key(std::string_view name);
  void number(std::string_view name, std::uint64_t value);
  void text(std::string_view name, std::string_view value);
  void time(std::string_view name, std::uint64_t nanoseconds);
  void place(std::uint32_t lane, std::uint64_t nanoseconds);
  void op_arguments(const Record& record);
  void arrow(ArrowEnd from, ArrowEnd to);
  void arrow_end(std::string_view phase, ArrowEnd end);
  void start_arrows(const Record& record, std::uint64_t nanoseconds);
  void end_arrow(const Record& record, std::uint64_t nanoseconds);
  void arrows(const Record& record, std::uint64_t start, std::uint64_t end);
  void add_slice(const Record& record, const Clock& clock);
  void name_lane(std::uint32_t lane);
  void give_up(std::string why);

  const std::string path_;
  const std::uint64_t most_bytes_;
  const std::uint64_t process_;
  const int file_;
  std::string out_;  // text that is not written yet
  std::uint64_t written_ = 0;
  bool first_ = true;  // whether no event was written yet
  std::uint32_t last_lane_ = ~0u;
  std::unordered_set<std::uint32_t> lanes_;  // lanes whose names are written
  Arrows arrows_;
  std::uint64_t arrow_count_ = 0;
  std::string error_;
};

}  // namespace heddle::trace
