#include <chrono>
#include <exception>
#include <mutex>
#include <string>

#include <heddle/engine.h>
#include <heddle/error.h>
#include <heddle/interrupt_check.h>
#include <heddle/var_use.h>

#include "api/wait.h"
#include "core/capture.h"
#include "core/core.h"
#include "core/op_scheduler.h"

namespace heddle {

using namespace detail;

VarUse use_by_this_op(const Var& var) {
  const OpNode* op = var.state()->core->current_function();
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
  // A fence stands for work on a stream, which may still run after its op has released the var.
  return state.idle() && !state.poison && !state.fences.load(std::memory_order_acquire);
}

namespace {

EngineCore* core_of(const Var& var, const char* what) {
  if (!var) throw InvalidArgument(std::string(what) + ": an empty Var; want one that Engine::new_var made");
  return var.state()->core;
}

}  // namespace

const std::atomic<Engine*>& engine_of(const Var& var) { return core_of(var, "engine_of")->engine; }

void wait_on(const Var& var) {
  const WaitOutcome outcome = wait_for(core_of(var, "wait_on"), var, kNever);
  if (outcome.poison) std::rethrow_exception(outcome.poison->root->exception);
}

void wait_with_check(const Var& var) {
  constexpr std::chrono::milliseconds kPause{50};
  EngineCore* const core = core_of(var, "wait_with_check");
  void (*const check)() = interrupt_check();
  if (!check || core->current_op() || capturing()) return;
  while (!wait_for(core, var, std::chrono::steady_clock::now() + kPause).over) check();
}

bool has_ended(const Engine& engine) { return !engine.core().is_open() || engine.core().forked(); }

}  // namespace heddle
