// Back-pressure on the users' ops in an engine that has a bound (EngineOptions::max_ops, max_bytes).
#pragma once

#include <cstddef>
#include <memory>

#include <heddle/engine_options.h>

#include "op/budget.h"
#include "op/op_node.h"

namespace heddle::detail {

struct EngineCore;

// Thread-safe. Without a bound every call returns at once.
class OpBudget {
 public:
  OpBudget(EngineCore& core, const EngineOptions& options);

  // Acquires room for one op that holds so many bytes. Blocks until there is room, unless the calling thread
  // is in an op of any engine, or in an op's work on a stream, since the end of that op may be what makes
  // room. Throws Error if the engine is shut down meanwhile. Returns null unless it blocked and is traced.
  std::unique_ptr<BlockedPush> acquire(std::size_t bytes) {
    return budget_ ? acquire_bounded(bytes) : nullptr;
  }
  // For the engine's own ops: never blocks, and may exceed the bound.
  void acquire_anyway(std::size_t bytes) {
    if (budget_) budget_->acquire_anyway(bytes);
  }
  void release(const OpNode& op) noexcept {  // op has ended
    if (budget_) budget_->release(op.bytes(), op.sequence);
  }
  // Releases the room of an op that was not pushed in the end.
  void release_unpushed(std::size_t bytes) noexcept;

 private:
  std::unique_ptr<BlockedPush> acquire_bounded(std::size_t bytes);

  EngineCore& core_;
  const std::unique_ptr<Budget> budget_;  // null: no bound
};

}  // namespace heddle::detail
