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

void OpBudget::acquire_bounded(std::size_t bytes) {
  // The room of a captured op is released at once: that op will run later, or never.
  if (this_thread_state.core || InStreamWork::here() || capturing()) return budget_->acquire_anyway(bytes);
  if (budget_->try_acquire(bytes)) return;
  core_.scheduler().await_budget(*budget_, bytes);
  try {
    core_.check_open();
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
