// The engine: push an op with the vars it reads and the vars it mutates; the engine alone decides when it runs.
//
//   heddle::Engine engine;
//   heddle::Var a = engine.new_var(), b = engine.new_var();
//   engine.push([&] { x = 2; }, {.mutate = {a}});
//   engine.push([&] { y = x + 1; }, {.read = {a}, .mutate = {b}});
//   engine.wait(b);
//
// Ops that touch a var run as if one at a time in push order, except that consecutive reads run together.
//
// Errors travel with data. An exception out of an op poisons the vars that the op mutates; ops that read a poisoned var
// are skipped and poison what they mutate; every wait on a poisoned var rethrows the exception. An op that overwrites
// the var without reading it makes it clean again, and so does clear_error.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <source_location>
#include <string>
#include <type_traits>
#include <utility>

#include <heddle/default_engine.h>
#include <heddle/device.h>
#include <heddle/engine_options.h>
#include <heddle/error.h>
#include <heddle/op.h>
#include <heddle/op_table.h>
#include <heddle/progress_source.h>
#include <heddle/var.h>

namespace heddle {

class Graph;
class Stream;
template <class T> class Slot;

// Runs the ops that are pushed on it. Thread-safe. Destroying an engine waits for all its ops, and writes one line to stderr if
// there are errors that no wait has thrown. Inside one of its own ops, which would wait for itself, it aborts with a message.
class Engine {
 public:
  explicit Engine(EngineOptions options = EngineOptions::from_environment());
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  Var new_var();

  // Queues fn, callable as fn() or fn(RunContext&), and returns. An exception out of fn poisons what the op mutates.
  // Throws InvalidArgument for an empty var or another engine's, or a name that is a null pointer.
  template <class F>
  requires(!std::is_same_v<std::decay_t<F>, PreparedOp>) void push(
      F&& fn, const Access& access = {}, std::source_location where = std::source_location::current()) {
    emplace<detail::SyncOp<std::decay_t<F>>>(std::forward<F>(fn), access, where);
  }

  // Queues fn(RunContext&, Completion). The op is done when its Completion was called, on any thread.
  template <class F>
  void push_async(F&& fn, const Access& access = {},
                  std::source_location where = std::source_location::current()) {
    emplace<detail::AsyncOp<std::decay_t<F>>>(std::forward<F>(fn), access, where);
  }

  // An op to push many times: its closure is not copied, nor its access list checked, at each push.
  template <class F>
  PreparedOp prepare(F&& fn, const Access& access = {},
                     std::source_location where = std::source_location::current()) {
    using Op = detail::SyncOp<std::decay_t<F>>;
    return PreparedOp(make_prepared(&Op::table, new Op{std::forward<F>(fn)}, access, where));
  }
  void push(const PreparedOp& op);

  // Records what fn() pushes here, instead of running it, as a graph to be launched again and again: see graph.h.
  template <class F>
  Graph capture(F&& fn, const char* name = "graph",
                std::source_location where = std::source_location::current());
  // A new slot of the graph that is being captured, see Slot in graph.h. Throws Error outside capture().
  template <class T> Slot<T> slot();
  // Queues fn(Stream&) or fn(RunContext&, Stream&), which only enqueues work: see <heddle/stream_ops.h>.
  template <class F>
  void push_on(Stream& stream, F&& fn, const Access& access = {},
               std::source_location where = std::source_location::current());
  // Streams, which the engine owns. stream(): shared by all callers. adopt_stream(): made by the caller.
  Stream& stream(Device device, Lane lane = Lane::compute);
  Stream& make_stream(Device device, Lane lane = Lane::compute);
  Stream& adopt_stream(std::unique_ptr<Stream> stream);

  // Blocks until every op pushed so far that mutates var is done; rethrows the error that poisons it, type
  // intact. Inside an op other ops keep running; throws WouldDeadlock if the wait could only end after that op
  // (not found if the cycle goes through threads of several engines), and Error if no thread can work meanwhile.
  void wait(const Var& var);
  // Waits as wait(), until `deadline` at the latest. False: ops that mutate var are still in flight.
  bool wait_until(const Var& var, std::chrono::steady_clock::time_point deadline);

  // Blocks until every op pushed so far, and what those push, is done. Throws AggregateError with all errors that still
  // poison a var and the first 1,000 others that no wait has thrown; WouldDeadlock inside an op.
  void wait_all();

  // While it lives, threads that wait on this engine do the source's work. Only with Scheduler::threaded.
  void add_progress_source(std::weak_ptr<ProgressSource> progress_source);

  // The error that poisons var now, else a null exception. Does not wait; wait_all still throws the error.
  // Throws InvalidArgument, as wait and clear_error do, for an empty var or another engine's.
  ErrorReport error_of(const Var& var) const;

  // Removes the poison of var, in push order: ops pushed later see it clean.
  void clear_error(const Var& var, std::source_location where = std::source_location::current());

  // The ops that run, those that wait and what for, the first hundred of each; as text, or as a DOT graph.
  // Any thread, any time, also in ops. Without a watchdog, running ops that mutate nothing are only counted.
  std::string describe_pending() const;
  std::string pending_dot() const;

  int workers() const;  // number of workers; 1 with Scheduler::naive and Scheduler::fuzz
  EngineOptions options() const;
  detail::EngineCore& core() const { return *core_; }

 private:
  template <class Op, class F> void emplace(F&& fn, const Access& access, std::source_location where) {
    submit(make_op<Op>(std::forward<F>(fn), access, where));
  }
  template <class Op, class F>
  detail::OpNode* make_op(F&& fn, const Access& access, std::source_location where) {
    static_assert(alignof(Op) <= detail::kClosureAlign, "closure is over-aligned");
    detail::NewOp op = begin_push(&Op::table, sizeof(Op), access, where);
    try {
      ::new (op.closure) Op{std::forward<F>(fn)};
    } catch (...) {
      abandon_push(op);
      throw;
    }
    return op.node;
  }
  detail::NewOp begin_push(const detail::OpTable*, std::size_t closure_bytes, const Access&,
                           std::source_location);
  detail::StreamLane& lane_of(const Stream& stream);
  void submit_on(detail::StreamLane& lane, detail::OpNode* op);
  void abandon_push(detail::NewOp) noexcept;
  detail::OpNode* make_op(const PreparedOp& op);
  void submit(detail::OpNode* op);
  detail::PreparedState* make_prepared(const detail::OpTable*, void* closure, const Access&,
                                       std::source_location);

  detail::EngineCore* core_;
};

}  // namespace heddle
