#include "scheduler/parallel_loop.h"

#include <algorithm>
#include <utility>

namespace heddle::detail {

void ParallelLoop::work() noexcept {
  const OpNode* const before = std::exchange(this_thread_state.graph_op, graph_op_);
  for (;;) {
    const std::int64_t begin = next_.fetch_add(grain_, std::memory_order_relaxed);
    if (begin >= count_) break;
    try {
      body_(begin, std::min(begin + grain_, count_));
    } catch (...) {
      next_.store(count_, std::memory_order_relaxed);
      std::lock_guard guard(error_lock_);
      if (!error_) error_ = std::current_exception();
    }
  }
  this_thread_state.graph_op = before;
}

bool ParallelLoop::helpers_left_soon() const {
  // acquire, here and below: pairs with leave(), so that this thread sees what the helpers computed.
  for (int spins = 0; spins < 2000; ++spins) {
    if (helpers_.load(std::memory_order_acquire) == 0) return true;
    cpu_relax();
  }
  return false;
}

void ParallelLoop::await_helpers() const {
  while (const std::uint32_t helpers = helpers_.load(std::memory_order_acquire)) helpers_.wait(helpers);
}

void ParallelLoop::rethrow() const {
  if (error_) std::rethrow_exception(error_);
}

void ParallelLoops::open(const std::shared_ptr<ParallelLoop>& loop) {
  std::lock_guard guard(lock_);
  loops_.push_back(loop);
  open_.store(loops_.size(), std::memory_order_seq_cst);  // seq_cst: see IdleWorkers
}

void ParallelLoops::close(const ParallelLoop* loop) {
  std::shared_ptr<ParallelLoop> last;  // the loop is freed outside the lock
  std::lock_guard guard(lock_);
  const auto at =
      std::find_if(loops_.begin(), loops_.end(), [&](const auto& one) { return one.get() == loop; });
  if (at == loops_.end()) return;
  last = std::move(*at);
  loops_.erase(at);
  open_.store(loops_.size(), std::memory_order_seq_cst);
}

std::shared_ptr<ParallelLoop> ParallelLoops::enter() {
  if (empty()) return nullptr;
  std::lock_guard guard(lock_);
  if (loops_.empty()) return nullptr;
  std::shared_ptr<ParallelLoop> loop = loops_.front();
  // relaxed: the loop's owner reads helpers_ only after close(), which takes lock_.
  loop->helpers_.fetch_add(1, std::memory_order_relaxed);
  return loop;
}

void ParallelLoops::leave(ParallelLoop& loop) {
  // seq_cst: notify_all() looks for waiters next, and a waiter reads helpers_ after it was counted.
  loop.helpers_.fetch_sub(1, std::memory_order_seq_cst);
  loop.helpers_.notify_all();
}

}  // namespace heddle::detail
