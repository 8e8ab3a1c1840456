// A parallel loop that idle workers may join.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "base/spin_lock.h"
#include "core/thread_state.h"
#include "op/op_node.h"

namespace heddle::detail {

class ParallelLoop {
 public:
  using Body = std::function<void(std::int64_t, std::int64_t)>;
  ParallelLoop(std::int64_t count, std::int64_t grain, const Body& body, OpNode* owner)
      : op(owner), graph_op_(this_thread_state.graph_op), count_(count), grain_(grain), body_(body) {}

  void work() noexcept;  // runs chunks until none is left
  bool exhausted() const { return next_.load(std::memory_order_relaxed) >= count_; }
  // Called by the thread that made the loop, after its own work. helpers_left_soon(): whether all helpers
  // leave within a moment. await_helpers(): blocks until they have left. rethrow(): throws the first
  // exception of a chunk.
  bool helpers_left_soon() const;
  void await_helpers() const;
  void rethrow() const;

  OpNode* const op;  // the op that runs the loop

 private:
  friend class ParallelLoops;
  const OpNode* const graph_op_;  // the op of a graph that runs the loop, see ThreadState
  const std::int64_t count_, grain_;
  const Body& body_;
  std::atomic<std::int64_t> next_{0};
  std::atomic<std::uint32_t> helpers_{0};  // number of workers in work()
  SpinLock error_lock_;                    // guards error_
  std::exception_ptr error_;
};

// The loops that still have chunks.
class ParallelLoops {
 public:
  void open(const std::shared_ptr<ParallelLoop>& loop);
  void close(const ParallelLoop* loop);   // no helper enters any more; a second call does nothing
  std::shared_ptr<ParallelLoop> enter();  // joins a loop as a helper; null if there is none
  static void leave(ParallelLoop& loop);  // ends what enter() began
  bool empty() const { return open_.load(std::memory_order_seq_cst) == 0; }

 private:
  SpinLock lock_;  // guards loops_
  std::vector<std::shared_ptr<ParallelLoop>> loops_;
  std::atomic<std::size_t> open_{0};
};

}  // namespace heddle::detail
