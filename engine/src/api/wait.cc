// Waits for a var, and for all ops.
#include "api/wait.h"

#include <memory>
#include <mutex>
#include <utility>

#include <heddle/engine.h>

#include "api/access_list.h"
#include "core/capture.h"
#include "core/core.h"
#include "stream/fence_set.h"

namespace heddle {

using namespace detail;

namespace {

OpNode* wait_op(EngineCore* core, const Var& var) {
  Access access{.name = "wait"};
  access.read.add(var);
  OpNode* op = allocate_op(core, 1, 0, true);
  op->access_count = fill_accesses(op->accesses(), access, op);
  op->accesses()[0].reads = false;  // a poisoned var does not skip the wait op, which reports the error
  op->kind = OpKind::wait;
  op->name = access.name;
  return op;
}

// In the child of a fork, ops that were done at the fork count as done; ops that were in flight never end.
FailurePtr wait_in_child(VarState& var) {
  constexpr const char* kUnderWay =
      "wait: ops on this var were under way in the parent when it called fork()";
  if (!var.lock.try_lock()) throw Error(kUnderWay);
  const bool done = !var.writer && !var.head && !var.core->scheduler().has_submitted(var);
  FailurePtr poison = var.poison;
  var.lock.unlock();
  if (const FenceSet* fences = var.fences) {
    FailurePtr failure;
    if (!fences->state_in_child(failure)) throw Error(kUnderWay);
    if (failure) poison = failure;
  }
  if (!done) throw Error(kUnderWay);
  if (poison) poison->root->seen = true;
  return poison;
}

// Waits by a wait op that is queued on the var.
WaitOutcome wait_by_op(EngineCore* core, const Var& var, Deadline deadline, bool leave_to_others,
                       std::uint64_t& released_by) {
  auto state = std::make_shared<WaitState>();  // made before the op, which an exception would leak
  state->leave_to_others = leave_to_others;
  OpNode* op = wait_op(core, var);
  op->extra->wait = state;
  if (deadline == kNever) {
    core->scheduler().wait(op);
  } else if (!core->scheduler().wait_until(op, deadline)) {
    return {};
  }
  released_by = state->released_by;
  // The poison is moved out, since the thread that ended the wait may still hold `state`: ErrorLog takes an
  // error that something else refers to for one that still poisons a var.
  return {true, std::move(state->poison)};
}

// The sequence number of this engine's op that the calling thread is in; kNone outside.
std::uint64_t sequence_around(const EngineCore& core) {
  return this_thread_state.core == &core ? this_thread_state.function()->sequence : trace::kNone;
}

}  // namespace

detail::WaitOutcome detail::wait_for(EngineCore* core, const Var& var, Deadline deadline) {
  refuse_in_capture("wait");
  if (core->forked() && var && var.state()->core == core) return {true, wait_in_child(*var.state())};
  StreamOps::check_may_wait();
  check_var(var, core, "wait");
  const trace::Tick start = trace::on() ? trace::now() : 0;
  std::uint64_t released_by = trace::kNone;
  WaitOutcome outcome;
  using Help = OpScheduler::Help;
  const Help help =
      deadline == kNever ? core->scheduler().help_until_over(*var.state(), outcome.poison) : Help::not_over;
  outcome.over = help == Help::over;
  if (!outcome.over) outcome = wait_by_op(core, var, deadline, help == Help::long_op, released_by);
  if (start) [[unlikely]]
    trace::waited("wait", core->trace_number, sequence_around(*core), released_by, start, trace::now());
  if (outcome.poison) outcome.poison->root->seen = true;
  return outcome;
}

void Engine::wait(const Var& var) {
  const WaitOutcome outcome = wait_for(core_, var, kNever);
  if (outcome.poison) std::rethrow_exception(outcome.poison->root->exception);
}

bool Engine::wait_until(const Var& var, Deadline deadline) {
  const WaitOutcome outcome = wait_for(core_, var, deadline);
  if (outcome.poison) std::rethrow_exception(outcome.poison->root->exception);
  return outcome.over;
}

void Engine::wait_all() {
  refuse_in_capture("wait_all");
  if (core_->forked()) core_->check_open();
  StreamOps::check_may_wait();
  const trace::Tick start = trace::on() ? trace::now() : 0;
  core_->scheduler().wait_all();
  if (start) [[unlikely]]
    trace::waited("wait_all", core_->trace_number, trace::kNone, trace::kNone, start, trace::now());
  ErrorLog::Reports reports = core_->errors.take_reports();
  if (!reports.kept.empty()) throw AggregateError(std::move(reports.kept), reports.more);
}

}  // namespace heddle
