// What the three schedulers share: the life of an op from its push to its end, errors included.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include <heddle/engine.h>

#include "failure.h"
#include "fork.h"
#include "op_node.h"

namespace heddle::detail {

class Streams;
struct EngineCore;

// What the calling thread is doing.
struct ThreadState {
  EngineCore* core = nullptr;  // of the op it runs
  OpNode* op = nullptr;        // innermost
  int worker = -1;
  const ThreadState* outer =
      nullptr;  // an op below it: of another engine, or of the same under naive and fuzz
};
extern constinit thread_local ThreadState this_thread_state;

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
  explicit EngineCore(const EngineOptions& engine_options, bool extra = false);
  virtual ~EngineCore();
  EngineCore(const EngineCore&) = delete;
  EngineCore& operator=(const EngineCore&) = delete;

  virtual void submit(OpNode* op) = 0;     // takes over a filled-in op
  virtual void wait(OpNode* wait_op) = 0;  // submits it and blocks until its WaitState holds the outcome
  virtual void wait_all() = 0;             // blocks until every op pushed so far and what those push is done
  // op has ended and its closure is destroyed; `failure` is what it leaves on the vars it mutates.
  virtual void finish(OpNode* op, const std::shared_ptr<const Failure>& failure) noexcept = 0;
  virtual void drop(VarState& var) noexcept;  // its last handle is gone
  virtual void enter_submitted() {}  // all that was pushed so far is queued on its vars when this returns
  // In the child of a fork: ops on var were pushed and not yet entered.
  virtual bool has_submitted(const VarState&) const { return false; }
  virtual void
  stop() noexcept = 0;  // after wait_all; no op is pushed any more, no thread of the core is left
  virtual int workers() const { return 1; }

  // Of ops on streams, see stream_ops.cc. op was issued: others may have its vars.
  virtual void issued(OpNode* op) noexcept = 0;
  // What it has enqueued is done, any thread; op is freed.
  virtual void ended(OpNode* op, const std::shared_ptr<const Failure>& failure) noexcept = 0;
  // What op was kept back for is done, any thread: it is executed again.
  virtual void resume(OpNode* op) noexcept = 0;
  virtual void stir() noexcept {}  // a WaitState is done, any thread, no lock held
  virtual std::unique_ptr<Stream> new_stream(Device device, Lane lane);
  // Null until the first stream is made.
  Streams* streams() const { return streams_.load(std::memory_order_acquire); }
  Streams& need_streams();
  virtual void parallel(std::int64_t count, std::int64_t grain,
                        const std::function<void(std::int64_t, std::int64_t)>& body);

  // The calling thread, which runs an op of this core, is going to block. Throws Error if nobody can work instead.
  virtual void begin_blocking() {}
  virtual void end_blocking() noexcept {}

  void retain() noexcept { refs_.fetch_add(1, std::memory_order_relaxed); }
  void release() noexcept;

  // Waits for all ops, logs the errors that nobody saw, ends the threads. Every later push throws.
  void shut_down() noexcept;
  void check_open() const {  // throws Error after shut_down, and in the child of a fork
    if (forked() || !open_.load(std::memory_order_relaxed)) [[unlikely]]
      throw_closed();
  }
  // This is the child of a fork, the core's threads are in the parent.
  bool forked() const { return generation_ != fork_generation(); }

  // Throws WouldDeadlock if the calling thread is in an op on a stream, of whatever engine: it has the stream's gate.
  static void check_may_wait();

  // The innermost op of this core that the calling thread is in; null if there is none.
  OpNode* current_op() const;

  const EngineOptions options;
  const bool extra_for_all;  // every op has an OpExtra
  ErrorLog errors;
  std::mutex one_search;  // see depends()

 protected:
  friend void complete_parts(OpNode* op) noexcept;
  // Runs op's function, or skips it if what it reads is poisoned; finish() follows, now or from a Completion. Beside
  // streams it may be resume() or issued() and ended() instead.
  void execute(OpNode* op, int worker) noexcept {
    if (streams() && !may_run_on_cpu(op, worker)) [[unlikely]]
      return;
    run_on_cpu(op, worker);
  }
  // Gives back the vars of op, which the caller frees. Ops of the other kinds that become ready are run here; those of users are
  // appended to `ready`.
  void settle(OpNode* op, const std::shared_ptr<const Failure>& failure, ReadyList& ready) noexcept;
  // Runs an entered op of another kind, or lets go of a var; then as settle().
  void run_internal(QueueNode* node, ReadyList& ready) noexcept;

 private:
  [[noreturn]] void throw_closed() const;
  void run_on_cpu(OpNode* op, int worker) noexcept;
  void execute_async(OpNode* op, int worker) noexcept;
  // cold: programs without streams pay for one branch, and not for what is behind it.
  [[gnu::cold]] bool may_run_on_cpu(OpNode* op, int worker) noexcept;
  void issue_in_turn(OpNode* op, int worker) noexcept;
  void issue(OpNode* op, int worker) noexcept;
  std::shared_ptr<const Failure> outcome(
      OpNode* op, std::exception_ptr own,
      const std::vector<std::shared_ptr<const Failure>>& inherited) noexcept;
  std::shared_ptr<const Failure> failure_of_reads(const OpNode& op) const;
  [[gnu::cold]] void signal_after(FenceSet& fences, const std::shared_ptr<WaitState>& state) noexcept;
  void signal(OpNode* op) noexcept;
  void end(OpNode* op, std::exception_ptr thrown) noexcept;
  std::atomic<Streams*> streams_{nullptr};  // ops look at it; what comes before it never changes
  alignas(64) std::atomic<std::int64_t> refs_{1};
  std::atomic<bool> open_{true};
  const std::uint32_t generation_;
};

void announce(WaitState& state) noexcept;  // its poison is written; wakes who waits for it
void complete_parts(OpNode* op) noexcept;  // both parts of an asynchronous op have ended

EngineCore* make_naive_core(const EngineOptions& options);
EngineCore* make_fuzz_core(const EngineOptions& options);
EngineCore* make_threaded_core(const EngineOptions& options);

}  // namespace heddle::detail
