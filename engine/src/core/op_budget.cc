#include "core/op_budget.h"

#include "core/capture.h"
#include "core/core.h"
#include "stream/stream_work.h"

namespace heddle::detail {

OpBudget::OpBudget(EngineCore& core, const EngineOptions& options)
    : core_(core),
      budget_(options.max_ops != 0 || options.max_bytes != 0
                  ? std::make_unique<Budget>(options.max_ops, options.max_bytes)
                  : nullptr) {}

std::unique_ptr<BlockedPush> OpBudget::acquire_bounded(std::size_t bytes) {
  // A captured op may run later or never, so its room is released at once.
  if (this_thread_state.core || InStreamWork::here() || capturing()) {
    budget_->acquire_anyway(bytes);
    return nullptr;
  }
  if (budget_->try_acquire(bytes)) return nullptr;
  const trace::Tick start = trace::on() ? trace::now() : 0;
  core_.scheduler().await_budget(*budget_, bytes);
  try {
    core_.check_open();
    if (!start) return nullptr;
    return std::make_unique<BlockedPush>(
        BlockedPush{start, trace::now(), budget_->released_by(), trace::this_thread_lane()});
  } catch (...) {
    release_unpushed(bytes);
    throw;
  }
}

void OpBudget::release_unpushed(std::size_t bytes) noexcept {
  if (!budget_) return;
  budget_->release(bytes);
  core_.scheduler().budget_released();
}

}  // namespace heddle::detail
