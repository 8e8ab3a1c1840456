#include "trace/trace.h"

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <string_view>
#include <unistd.h>

#include "base/log.h"
#include "trace/trace_file.h"
#include "trace/trace_recorder.h"

namespace heddle::trace {
namespace {

constinit thread_local ThreadBuffer* buffer = nullptr;
constinit thread_local std::uint32_t lane_of_thread = 0;

// Tells the writer that this thread has ended. Destructors of statics that record later on this thread use a new
// buffer, which is never freed.
struct AtThreadEnd {
  ~AtThreadEnd() {
    if (buffer) buffer->end_of_thread();
    buffer = nullptr;
  }
};

ThreadBuffer* make_buffer() noexcept {
  thread_local AtThreadEnd at_thread_end;
  (void)at_thread_end;
  buffer = the_recorder().make_buffer();
  return buffer;
}

// Fills the record in the buffer itself: filling it elsewhere and copying takes twice as long.
void append(Kind kind, std::uint32_t lane, const TraceOp& op, Tick start, Tick end) noexcept {
  ThreadBuffer* mine = buffer ? buffer : make_buffer();
  if (!mine) return the_recorder().count_dropped();
  Record* record = mine->place(start);
  if (!record) return;
  record->start = start;
  record->end = end;
  record->sequence = op.sequence;
  record->other = op.released_by;
  record->name = op.name;
  record->file = op.where.file_name();
  record->line = op.where.line();
  record->lane = lane;
  record->engine = op.engine;
  record->kind = kind;
  mine->commit();
}

std::string replaced(std::string path, std::string_view what, const std::string& by) {
  for (std::size_t at = 0; (at = path.find(what, at)) != std::string::npos; at += by.size())
    path.replace(at, what.size(), by);
  return path;
}

// The path with %p replaced by the process id and %r by the rank.
std::string with_numbers(const std::string& path) {
  return replaced(replaced(path, "%p", std::to_string(::getpid())), "%r",
                  std::to_string(std::max<std::int64_t>(0, rank_of_process())));
}

// Writes one line to the log if the trace is not complete.
void report_missing(const TraceSummary& summary) noexcept {
  if (summary.dropped == 0 && summary.error.empty()) return;
  detail::log("heddle: trace " + summary.path + ": " + std::to_string(summary.dropped) + " of " +
              std::to_string(summary.dropped + summary.records) + " records are missing: " +
              (summary.error.empty() ? "they came faster than they could be written" : summary.error));
}

struct StopAtExit {
  ~StopAtExit() {
    try {
      report_missing(stop());
    } catch (const std::exception& error) {
      detail::log(std::string("heddle: ") + error.what());
    }
  }
};

void stop_at_exit() noexcept { static StopAtExit at_exit; }

}  // namespace

void forget_thread_after_fork() noexcept {
  recording.store(false, std::memory_order_relaxed);
  buffer = nullptr;
  lane_of_thread = 0;
}

std::uint32_t next_engine() noexcept {
  static std::atomic<std::uint32_t> engines{0};
  return engines.fetch_add(1, std::memory_order_relaxed) + 1;
}

std::uint32_t this_thread_lane() noexcept {
  if (lane_of_thread == 0) lane_of_thread = the_recorder().next_lane();
  return lane_of_thread;
}

void op_ran(std::uint32_t lane, const TraceOp& op, Tick start, Tick end) noexcept {
  append(Kind::op, lane, op, start, end);
}

void graph_op_ran(std::uint32_t lane, const TraceOp& op, Tick start, Tick end) noexcept {
  append(Kind::graph_op, lane, op, start, end);
}

void op_issued(std::uint32_t lane, const TraceOp& op, Tick start, Tick end) noexcept {
  append(Kind::issue, lane, op, start, end);
}

void op_completed(std::uint32_t lane, const TraceOp& op, Tick start, Tick end) noexcept {
  append(Kind::completed, lane, op, start, end);
}

void waited(const char* what, std::uint32_t engine, std::uint64_t inside, std::uint64_t released_by,
            Tick start, Tick end) noexcept {
  append(Kind::wait, this_thread_lane(), {what, {}, engine, inside, released_by}, start, end);
}

void push_blocked(std::uint32_t lane, const TraceOp& op, Tick start, Tick end) noexcept {
  append(Kind::blocked, lane, op, start, end);
}

void start(const std::string& path, TraceOptions options) {
  stop_at_exit();
  the_recorder().start(with_numbers(path), options);
}

TraceSummary stop() { return the_recorder().stop(); }
void flush() { the_recorder().flush(); }
bool running() noexcept { return the_recorder().running(); }

void start_from_environment() noexcept {
  stop_at_exit();
  if (!the_recorder().first_from_environment()) return;
  const char* path = std::getenv("HEDDLE_TRACE");
  if (!path || !*path) return;
  try {
    if (!running()) start(path);
  } catch (const std::exception& error) {
    detail::log(std::string("heddle: HEDDLE_TRACE: ") + error.what());
  }
}

}  // namespace heddle::trace
