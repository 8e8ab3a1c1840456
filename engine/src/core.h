// What the three schedulers share: the life of an op from its push to its end, errors included.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>

#include <heddle/engine.h>

#include "failure.h"
#include "op_node.h"

namespace heddle::detail {

struct EngineCore;

// What the calling thread is doing.
struct ThreadState {
  EngineCore* core = nullptr;  // of the op it runs
  OpNode* op = nullptr;        // innermost
  int worker = -1;
  const ThreadState* outer =
      nullptr;  // an op below it: of another engine, or of the same under naive and fuzz
};
ThreadState& this_thread_state();

// While one lives, the calling thread runs `op`.
class InsideOp {
 public:
  InsideOp(EngineCore* core, OpNode* op, int worker);
  ~InsideOp();
  InsideOp(const InsideOp&) = delete;
  InsideOp& operator=(const InsideOp&) = delete;

 private:
  ThreadState outer_;
};

// The calling thread gives up, and asks back, its place among the workers of every engine whose op it is in.
void begin_blocking_everywhere();
void end_blocking_everywhere() noexcept;

// Reference-counted: the Engine holds one, every var and prepared op another, so that all may outlive the engine.
struct EngineCore {
  explicit EngineCore(const EngineOptions& engine_options);
  virtual ~EngineCore() = default;
  EngineCore(const EngineCore&) = delete;
  EngineCore& operator=(const EngineCore&) = delete;

  virtual void submit(OpNode* op) = 0;     // takes over a filled-in op
  virtual void wait(OpNode* wait_op) = 0;  // submits it and blocks until its WaitState holds the outcome
  virtual void wait_all() = 0;             // blocks until every op pushed so far and what those push is done
  // The function of op, and its Completion if it has one, have ended.
  virtual void finish(OpNode* op, std::exception_ptr error) noexcept = 0;
  virtual void stop() noexcept = 0;  // after wait_all; no op is pushed any more
  virtual int workers() const { return 1; }
  virtual void parallel(std::int64_t count, std::int64_t grain,
                        const std::function<void(std::int64_t, std::int64_t)>& body);

  // The calling thread, which runs an op of this core, is going to block. Throws Error if nobody can work instead.
  virtual void begin_blocking() {}
  virtual void end_blocking() noexcept {}

  std::uint64_t next_sequence() { return sequence_.fetch_add(1, std::memory_order_relaxed); }
  void retain() noexcept { refs_.fetch_add(1, std::memory_order_relaxed); }
  void release() noexcept;

  // Waits for all ops, logs the errors that nobody saw, ends the threads. Every later push throws.
  void shut_down() noexcept;
  void check_open() const;  // throws Error after shut_down, and in the child of a fork
  bool forked() const;      // this is the child of a fork, the core's threads are in the parent

  // The innermost op of this core that the calling thread is in; null if there is none.
  OpNode* current_op() const;

  const EngineOptions options;
  ErrorLog errors;
  std::mutex one_search;  // see depends()

 protected:
  // Runs op's function, or skips it if what it reads is poisoned; finish() follows, now or from a Completion.
  void execute(OpNode* op, int worker) noexcept;
  // Destroys the closure, gives back the vars, frees the op. Ops of the other kinds that become ready are run here;
  // those of users are appended to `ready`.
  void settle(OpNode* op, std::exception_ptr error, ReadyList& ready) noexcept;
  // Queues op on its vars and appends what may run now, itself included, to `ready`; other kinds are run here.
  void enter_op(OpNode* op, ReadyList& ready);
  // What op leaves on the vars it mutates: null if it ran well.
  std::shared_ptr<const Failure> outcome(const OpNode& op, std::exception_ptr error);
  void destroy_closure_inside(OpNode* op) noexcept;

 private:
  void run_internal(OpNode* op) noexcept;
  void leave_and_drain(OpNode* op, const std::shared_ptr<const Failure>& failure, ReadyList& ready) noexcept;
  std::atomic<std::int64_t> refs_{1};
  std::atomic<std::uint64_t> sequence_{0};
  std::atomic<bool> open_{true};
  const std::uint32_t generation_;
};

void complete_parts(OpNode* op) noexcept;  // both parts of an asynchronous op have ended

EngineCore* make_naive_core(const EngineOptions& options);
EngineCore* make_fuzz_core(const EngineOptions& options);
EngineCore* make_threaded_core(const EngineOptions& options);

}  // namespace heddle::detail
