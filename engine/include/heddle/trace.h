// Tracing: which op ran where and when, and what it waited for, as a Chrome trace that Perfetto opens and that
// `heddle trace` reads.
//
//   HEDDLE_TRACE=out.json ./program      from the first engine to the end of the process; %p: process id, %r: rank
//   heddle::trace::start("out.json");    or from here
//   heddle::trace::stop();               to here
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace heddle::trace {

// Bounds of a trace. Records beyond them are dropped, and the trace says how many.
struct TraceOptions {
  std::size_t memory = std::size_t{256} << 20;  // most bytes of unwritten records; a record has 64
  std::uint64_t file = std::uint64_t{4} << 30;  // most bytes of the file; an op takes some 350
};

// The result of a trace.
struct TraceSummary {
  std::string path;           // empty: there was no trace
  std::uint64_t records = 0;  // records written: ops, waits, dependencies
  std::uint64_t dropped = 0;  // records not written: a bound was reached, or `error` had happened
  std::uint64_t bytes = 0;    // size of the file
  std::string error;          // why the file ends early; empty if it does not
};

// Starts a trace of all engines of the process. Ops that are running already are not recorded. Throws Error if the file
// cannot be opened, another process writes it, or a trace is running already.
void start(const std::string& path, TraceOptions options = {});

// Ends the trace and closes its file; safe while ops run. Does nothing if no trace is running.
TraceSummary stop();

// Writes all records made so far to the file, so that they survive even SIGKILL.
void flush();

// Whether a trace is being recorded.
bool running() noexcept;

}  // namespace heddle::trace
