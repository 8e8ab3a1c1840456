// Tracing: which op ran where and when, and what it waited for, as a Chrome trace that Perfetto opens and that
// `heddle trace` reads.
//
//   HEDDLE_TRACE=out.json ./program      from the first engine to the end of the process; %p is its id, %r its rank
//   heddle::trace::start("out.json");    or from here
//   heddle::trace::stop();               to here
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace heddle::trace {

// What a trace may cost. Beyond it records are dropped, and the trace says how many.
struct TraceOptions {
  std::size_t memory = std::size_t{256} << 20;  // bytes of records not yet written: 64 a record
  std::uint64_t file = std::uint64_t{4} << 30;  // bytes of the file: some 350 an op
};

// What became of a trace.
struct TraceSummary {
  std::string path;           // empty: there was no trace
  std::uint64_t records = 0;  // written: ops, waits, dependencies
  std::uint64_t dropped = 0;  // not written, for want of memory, of room in the file, or after `error`
  std::uint64_t bytes = 0;    // of the file
  std::string error;          // why the file ends early; empty if it does not
};

// Records from here on what every engine of the process does. Ops that are running are recorded from the next one
// on. Throws Error if the file cannot be opened, another process writes it, or a trace is running already.
void start(const std::string& path, TraceOptions options = {});

// Ends the trace and closes its file; safe while ops run. Does nothing if no trace is running.
TraceSummary stop();

// Writes what has been recorded so far, so that not even SIGKILL can lose it.
void flush();

// Whether a trace is being recorded.
bool running() noexcept;

}  // namespace heddle::trace
