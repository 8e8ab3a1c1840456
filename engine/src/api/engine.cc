#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>

#include <heddle/engine.h>
#include <heddle/parallel.h>

#include "api/access_list.h"
#include "core/capture.h"
#include "core/core.h"
#include "diagnostics/pending.h"
#include "diagnostics/watch.h"
#include "stream/fence_set.h"

namespace heddle {
namespace detail {

VarState::VarState(EngineCore* owner) : QueueNode(OpKind::delete_var), core(owner) {
  core->vars.add(*this);
  core->retain();
}
VarState::~VarState() {
  // In the child of a fork, another thread of the parent may have held a lock of the registry, which nothing
  // releases.
  if (!core->forked()) core->vars.remove(*this);
  delete fences.load(std::memory_order_acquire);
  core->release();
}

void retain(VarState* state) noexcept { state->refs.fetch_add(1, std::memory_order_relaxed); }

void release(VarState* state) noexcept {
  // acq_rel: what others pushed on the var comes before the last handle's drop().
  if (state->refs.fetch_sub(1, std::memory_order_acq_rel) == 1) state->core->scheduler().drop(*state);
}

namespace {

std::unique_ptr<OpScheduler> make_scheduler(EngineCore& core) {
  switch (core.options.scheduler) {
    case Scheduler::naive:
      return make_naive_scheduler(core);
    case Scheduler::fuzz:
      return make_fuzz_scheduler(core);
    default:
      return make_threaded_scheduler(core);
  }
}

struct ReleaseCore {
  void operator()(EngineCore* core) const noexcept { core->release(); }
};

EngineCore* make_core(const EngineOptions& options) {
  check_options(options);
  std::unique_ptr<EngineCore, ReleaseCore> core(new EngineCore(options));
  core->set_scheduler(make_scheduler(*core));
  try {
    if (options.watchdog > 0) {
      auto watch = std::make_unique<Watch>(*core, options.watchdog);
      watch->start();
      core->set_observer(std::move(watch));
    }
  } catch (const std::system_error& error) {
    core->shut_down();
    throw Error(std::string("cannot start the watchdog's thread: ") + error.what());
  } catch (...) {  // for example std::bad_alloc
    core->shut_down();
    throw;
  }
  return core.release();
}

}  // namespace
}  // namespace detail

using namespace detail;

Engine::Engine(EngineOptions options) : core_(make_core(options)) { core_->engine = this; }

Engine::~Engine() {
  core_->shut_down();
  core_->engine = nullptr;
  core_->release();
}

Var Engine::new_var() {
  core_->check_open();
  return Var::adopt(new VarState(core_));
}

void Engine::add_progress_source(std::weak_ptr<ProgressSource> progress_source) {
  core_->progress_sources.add(std::move(progress_source));
}

ErrorReport Engine::error_of(const Var& var) const {
  check_var(var, core_, "error_of");
  FailurePtr poison;
  {
    std::unique_lock lock(var.state()->lock, std::defer_lock);
    // In the child of a fork, another thread of the parent may have held the lock, which nothing releases.
    if (!core_->forked()) lock.lock();
    poison = var.state()->poison;
  }
  if (const FenceSet* fences = var.state()->fences.load(std::memory_order_acquire)) {
    FailurePtr failure;
    if (core_->forked()) {
      fences->state_in_child(failure);
    } else {
      failure = fences->failure();
    }
    if (failure) poison = failure;
  }
  return poison ? describe(*poison) : ErrorReport{};
}

void Engine::clear_error(const Var& var, std::source_location where) {
  core_->check_open();
  check_capture(core_);
  constexpr auto kNothing = [] {};
  using Nothing = SyncOp<std::remove_const_t<decltype(kNothing)>>;
  Access access{.name = "clear_error"};
  access.mutate.add(var);
  check_var(var, core_, access.name, where);
  OpNode* op = allocate_op(core_, 1, sizeof(Nothing), false);
  core_->budget.acquire_anyway(0);
  ::new (op->place()) Nothing{kNothing};
  op->access_count = fill_accesses(op->accesses(), access, op);
  op->table = &Nothing::table;
  op->name = access.name;
  op->where = where;
  submit(op);
}

std::string Engine::describe_pending() const { return Pending(*core_).text(); }
std::string Engine::pending_dot() const { return Pending(*core_).dot(); }

int Engine::workers() const { return core_->scheduler().workers(); }
EngineOptions Engine::options() const { return core_->options; }

void parallel_for(std::int64_t count, std::int64_t grain,
                  const std::function<void(std::int64_t begin, std::int64_t end)>& body) {
  if (count < 0)
    throw InvalidArgument("parallel_for: count is " + std::to_string(count) + ", want at least 0");
  if (grain < 1)
    throw InvalidArgument("parallel_for: grain is " + std::to_string(grain) + ", want at least 1");
  EngineCore* core = this_thread_state.core;
  if (core && count > grain) {
    core->scheduler().parallel(count, grain, body);
    return;
  }
  for (std::int64_t begin = 0; begin < count; begin += grain) body(begin, std::min(begin + grain, count));
}

}  // namespace heddle
