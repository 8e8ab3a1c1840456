#include <mutex>

#include <heddle/var_use.h>

#include "core/capture.h"
#include "core/core.h"

namespace heddle {

using namespace detail;

VarUse use_by_this_op(const Var& var) {
  const OpNode* op = var.state()->core->current_op();
  if (!op) return VarUse::none;
  for (std::uint32_t i = 0; i < op->access_count; ++i) {
    const AccessNode& access = op->accesses()[i];
    if (access.var == var.state()) return access.mutates ? VarUse::mutate : VarUse::read;
  }
  return VarUse::none;
}

bool is_idle(const Var& var) {
  VarState& state = *var.state();
  if (capturing() || state.core->forked() || !state.core->scheduler().all_entered()) return false;
  const std::lock_guard guard(state.lock);
  // Fences tell of ops on streams, whose work may be under way when they have given the var back.
  return state.idle() && !state.poison && !state.fences.load(std::memory_order_acquire);
}

}  // namespace heddle
