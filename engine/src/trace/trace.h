// Tracing, as the engine's core sees it: each call below appends one record to a buffer of the calling thread.
//
//   const Tick start = trace::on() ? trace::now() : 0;
//   ... the op's function runs ...
//   if (start) last = trace::op_ran(lane, {...}, start, trace::now());
//
// Off, that is one relaxed load an op. On, it is two looks at the clock, or one if the end of an op is taken for the
// start of the next, and one record of 64 bytes.
#pragma once

#include <atomic>
#include <cstdint>
#include <source_location>

#include <heddle/trace.h>

#include "trace/trace_clock.h"
#include "trace/trace_record.h"

namespace heddle::trace {

// What is said of an op. `name` is read when the record is written, up to stop(): a literal.
struct TraceOp {
  const char* name;
  std::source_location where;
  std::uint32_t engine;               // of next_engine()
  std::uint64_t sequence;             // within the engine, below 2^40
  std::uint64_t released_by = kNone;  // the op whose end made this one ready; kNone: it was ready at its push
};

inline std::atomic<bool> recording{false};
inline bool on() noexcept { return recording.load(std::memory_order_relaxed); }

// A number for an engine, from 1.
std::uint32_t next_engine() noexcept;

// The lane of the calling thread, if it is no worker. On one lane slices nest or follow each other: a lane belongs to a
// thread, not to a slot that threads hand on.
std::uint32_t this_thread_lane() noexcept;

// An op whose function ran from start to end.
void op_ran(std::uint32_t lane, const TraceOp& op, Tick start, Tick end) noexcept;

// An asynchronous op: its function ran from start to end; and, on whatever thread, it was completed at `end`. Lane and
// start are those of its function both times.
void op_issued(std::uint32_t lane, const TraceOp& op, Tick start, Tick end) noexcept;
void op_completed(std::uint32_t lane, const TraceOp& op, Tick start, Tick end) noexcept;

// One more op that `to` has to wait for, besides the one that releases it in the end.
void edge(std::uint32_t engine, std::uint64_t from, std::uint64_t to) noexcept;

// The calling thread waited, on its own lane; `released_by` ended the wait.
void waited(const char* what, std::uint32_t engine, std::uint64_t released_by, Tick start, Tick end) noexcept;

// How many ops of the engine are ready now.
void ready_ops(std::uint32_t engine, std::uint64_t count) noexcept;

// Starts the trace that HEDDLE_TRACE names, at the first call in this process, and ends it after what is made static
// later than that. For the constructor of an engine. What goes wrong is said on stderr: a program runs without a trace.
void start_from_environment() noexcept;

}  // namespace heddle::trace
