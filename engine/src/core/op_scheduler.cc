// Default implementations that most schedulers share.
#include "core/op_scheduler.h"

#include <algorithm>

#include <heddle/interrupt_check.h>
#include <heddle/stream_ops.h>

#include "core/core.h"
#include "op/budget.h"

namespace heddle::detail {

void OpScheduler::drop(VarState& var) noexcept { delete &var; }

void OpScheduler::release_op(OpNode* op, FailurePtr&& failure, ReadyList& ready) noexcept {
  core_.release_vars(op, failure, ready);
  failure.reset();
  free_op(op);
}

std::unique_ptr<Stream> OpScheduler::new_stream(Device device, Lane lane) {
  return make_stream(device, lane);
}

namespace {
thread_local void (*check_of_thread)() = nullptr;
}

void (*interrupt_check())() { return check_of_thread; }

void OpScheduler::await_budget(Budget& budget, std::size_t bytes) {
  check_of_thread ? budget.acquire_interruptibly(bytes, check_of_thread) : budget.acquire(bytes);
}

void OpScheduler::parallel(std::int64_t count, std::int64_t grain,
                           const std::function<void(std::int64_t, std::int64_t)>& body) {
  for (std::int64_t begin = 0; begin < count; begin += grain) body(begin, std::min(begin + grain, count));
}

}  // namespace heddle::detail

void heddle::set_interrupt_check(void (*check)()) { heddle::detail::check_of_thread = check; }

void heddle::check_interrupt() {
  if (void (*const check)() = heddle::detail::check_of_thread) check();
}
