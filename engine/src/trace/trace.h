// Tracing, for the engine's core: each call below appends one record to a buffer of the calling thread.
//
//   const Tick start = trace::on() ? trace::now() : 0;
//   ... the op's function runs ...
//   if (start) last = trace::op_ran(lane, {...}, start, trace::now());
//
// Off, that costs one relaxed load an op. On, it costs one record of 64 bytes and two readings of the clock, or one if
// the end of an op is taken for the start of the next.
#pragma once

#include <atomic>
#include <cstdint>
#include <source_location>

#include <heddle/trace.h>

#include "trace/trace_clock.h"
#include "trace/trace_record.h"

namespace heddle::trace {

// The op of a record. `name` is read when the record is written to the file, at stop() or before: use a
// literal.
struct TraceOp {
  const char* name;
  std::source_location where;
  std::uint32_t engine;               // the engine's number, from next_engine()
  std::uint64_t sequence;             // the op's number within the engine, below 2^40
  std::uint64_t released_by = kNone;  // the op whose end made this one ready; kNone: it was ready at its push
};

inline std::atomic<bool> recording{false};
inline bool on() noexcept { return recording.load(std::memory_order_relaxed); }

// Returns a new number for an engine, from 1.
std::uint32_t next_engine() noexcept;

// The calling thread's own lane, for its waits and blocked pushes. They are not shown on the lane of a worker
// slot: slices on one lane must nest or follow each other, and several threads use a slot in turn.
std::uint32_t this_thread_lane() noexcept;

// Records an op whose function ran from start to end.
void op_ran(std::uint32_t lane, const TraceOp& op, Tick start, Tick end) noexcept;
void graph_op_ran(std::uint32_t lane, const TraceOp& op, Tick start, Tick end) noexcept;

// Record an asynchronous op. op_issued: its function ran from start to end. op_completed: it was completed at
// `end`, on any thread; lane and start are those of its function.
void op_issued(std::uint32_t lane, const TraceOp& op, Tick start, Tick end) noexcept;
void op_completed(std::uint32_t lane, const TraceOp& op, Tick start, Tick end) noexcept;

// Records a wait of the calling thread on that thread's own lane. `inside`: the op in which the thread
// waited, kNone outside of ops. `released_by`: the op that ended the wait. Both ops are of that engine.
void waited(const char* what, std::uint32_t engine, std::uint64_t inside, std::uint64_t released_by,
            Tick start, Tick end) noexcept;

// Records that the push of an op waited for room in the engine's budget. `released_by` released the room; the
// lane is that of the pushing thread.
void push_blocked(std::uint32_t lane, const TraceOp& op, Tick start, Tick end) noexcept;

// For the constructor of an engine. At the first call in this process, starts the trace that HEDDLE_TRACE names. The
// trace ends at exit, after the destructors of statics that were made after this call. An error is written to stderr,
// and the program runs without a trace.
void start_from_environment() noexcept;

}  // namespace heddle::trace
