#include <algorithm>
#include <bit>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <string_view>
#include <system_error>
#include <vector>

#include <heddle/call_site.h>
#include <heddle/engine.h>
#include <heddle/number_text.h>
#include <heddle/parallel.h>
#include <heddle/var_use.h>

#include "api/wait.h"
#include "core/capture.h"
#include "core/core.h"
#include "diagnostics/pending.h"
#include "diagnostics/watch.h"
#include "graph/graph_state.h"
#include "stream/fence_set.h"

namespace heddle {
namespace detail {

VarState::VarState(EngineCore* owner) : QueueNode(OpKind::delete_var), core(owner) {
  core->vars.add(*this);
  core->retain();
}
VarState::~VarState() {
  // In the child of a fork a thread of the parent may hold a lock of the registry for ever.
  if (!core->forked()) core->vars.remove(*this);
  delete fences.load(std::memory_order_acquire);
  core->release();
}

void retain(VarState* state) noexcept { state->refs.fetch_add(1, std::memory_order_relaxed); }

void release(VarState* state) noexcept {
  // acq_rel: what others pushed on the var comes before the last handle's drop().
  if (state->refs.fetch_sub(1, std::memory_order_acq_rel) == 1) state->core->scheduler().drop(*state);
}

void retain(PreparedState* state) noexcept { state->refs.fetch_add(1, std::memory_order_relaxed); }

void release(PreparedState* state) noexcept {
  if (state->refs.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  state->table->destroy_heap(state->closure);
  for (std::uint32_t i = 0; i < state->access_count; ++i) release(state->accesses[i].var);
  state->core->release();
  delete state;
}

namespace {

[[noreturn]] void throw_bad_var(const VarState* var, const std::string& who, Where where) {
  const CallSite site(where);
  throw InvalidArgument(who +
                        (var ? ": a Var of another engine; want one that this engine made"
                             : ": an empty Var, never made or moved from; vars are made by Engine::new_var"));
}

void check_var(const Var& var, const EngineCore* core, const char* who, Where where = Where()) {
  if (!var || var.state()->core != core) throw_bad_var(var.state(), who, where);
}

[[noreturn]] void throw_no_name(Where where) {
  const CallSite site(where);
  throw InvalidArgument("push: Access::name is a null pointer; want a string that outlives the op");
}

// The name is checked first: errors about the vars name the op.
void check_access(const Access& access, const EngineCore* core, const Where& where) {
  if (!access.name) [[unlikely]]
    throw_no_name(where);
  for (const VarList* list : {&access.read, &access.mutate}) {
    for (const VarState* var : *list) {
      if (!var || var->core != core) [[unlikely]]
        throw_bad_var(var, std::string("op '") + access.name + "', access list", where);
    }
  }
}

// Merges `other` into `node`: both are accesses of one op to the same var.
void merge_into(AccessNode& node, const AccessNode& other) {
  node.reads |= other.reads;
  node.mutates |= other.mutates;
}

// Pairwise comparison is faster than a hash table for a few accesses.
AccessNode* merge_few(AccessNode* nodes, AccessNode* end) noexcept {
  AccessNode* last = nodes;
  for (AccessNode* node = nodes; node != end; ++node) {
    AccessNode* same = nodes;
    while (same != last && same->var != node->var) ++same;
    if (same == last) {
      if (last != node) *last = *node;
      ++last;
    } else {
      merge_into(*same, *node);
    }
  }
  return last;
}

// Finds repeats with a hash table of the first access to each var, open addressing.
AccessNode* merge_many(AccessNode* nodes, AccessNode* end) noexcept {
  const std::size_t size = std::bit_ceil(2 * static_cast<std::size_t>(end - nodes));
  // Not thread_local: another thread_local object may push after the table was destroyed. nothrow: a push
  // that has allocated its op cannot fail any more.
  const std::unique_ptr<AccessNode*[]> table(new (std::nothrow) AccessNode*[size]());
  if (!table) return merge_few(nodes, end);
  AccessNode* last = nodes;
  for (AccessNode* node = nodes; node != end; ++node) {
    std::size_t at = (reinterpret_cast<std::uintptr_t>(node->var) / sizeof(VarState)) & (size - 1);
    while (table[at] && table[at]->var != node->var) at = (at + 1) & (size - 1);
    if (table[at]) {
      merge_into(*table[at], *node);
    } else {
      if (last != node) *last = *node;
      table[at] = last++;
    }
  }
  return last;
}

// Merges repeats; a var in both lists is mutated and read. Returns how many are left.
std::uint32_t fill_accesses(AccessNode* nodes, const Access& access, OpNode* op) noexcept {
  constexpr std::ptrdiff_t kFew = 8;
  AccessNode* end = nodes;
  for (VarState* var : access.read) ::new (end++) AccessNode{op, var, nullptr, true, false, false};
  for (VarState* var : access.mutate) ::new (end++) AccessNode{op, var, nullptr, false, true, false};
  if (end - nodes > 1) end = end - nodes <= kFew ? merge_few(nodes, end) : merge_many(nodes, end);
  return static_cast<std::uint32_t>(end - nodes);
}

bool has_push_options(const Access& access) {
  return access.group.state || access.priority != 0 || access.bytes != 0;
}

// Out of line, as set_push_options(): most ops have no options.
[[gnu::noinline]] void check_push_options(const Access& access, const Where& where) {
  if (access.priority >= -kMostPriority && access.priority <= kMostPriority) return;
  const CallSite site(where);
  throw InvalidArgument(std::string("op '") + access.name + "': priority is " +
                        std::to_string(access.priority) + ", want -" + std::to_string(kMostPriority) +
                        " to " + std::to_string(kMostPriority));
}

[[gnu::noinline]] void set_push_options(PushOptions& push_options, const Access& access) {
  push_options = {access.group.state ? *access.group.state : nullptr, access.priority, access.bytes};
}

// allocate_op() for a user's op, which first acquires room in the bounds of the engine.
OpNode* allocate_in_bounds(EngineCore* core, std::size_t accesses, std::size_t closure_bytes, bool extra,
                           std::size_t bytes) {
  std::unique_ptr<BlockedPush> blocked = core->budget.acquire(bytes);
  try {
    OpNode* op = allocate_op(core, accesses, closure_bytes, extra || blocked);
    if (blocked) op->extra->blocked = std::move(blocked);
    return op;
  } catch (...) {
    core->budget.release_unpushed(bytes);
    throw;
  }
}

constexpr double kLongest = 1e9;  // seconds

bool is_time(double seconds) { return seconds >= 0 && seconds <= kLongest; }

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

}  // namespace

void check_options(const EngineOptions& options) {
  if (options.workers < 0 || options.workers > detail::kMostWorkers) {
    throw InvalidArgument("workers: got " + std::to_string(options.workers) +
                          ", want 0 (one a usable core) to 1024");
  }
  if (!is_time(options.watchdog)) {
    throw InvalidArgument("watchdog: got " + number_text(options.watchdog) + ", want 0 (off) to 1e9 seconds");
  }
  if (!is_time(options.spin)) {
    throw InvalidArgument("spin: got " + number_text(options.spin) + ", want 0 to 1e9 seconds");
  }
}

namespace {

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
  } catch (...) {  // out of memory
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

detail::NewOp Engine::begin_push(const OpTable* table, std::size_t closure_bytes, const Access& access,
                                 std::source_location where) {
  core_->check_open();
  check_capture(core_);
  check_access(access, core_, where);
  const bool with_options = has_push_options(access);
  if (with_options) check_push_options(access, where);
  OpNode* op = allocate_in_bounds(core_, access.read.size() + access.mutate.size(), closure_bytes,
                                  table->extra || with_options, access.bytes);
  if (with_options) set_push_options(op->extra->push_options, access);
  op->access_count = fill_accesses(op->accesses(), access, op);
  op->table = table;
  op->name = access.name;
  op->where = where;
  if (access.brief) op->flags |= OpNode::kBrief;
  return {op, op->place()};
}

void Engine::submit(OpNode* op) { submit_or_record(core_, op); }

void Engine::abandon_push(NewOp op) noexcept {
  core_->budget.release_unpushed(op.node->bytes());
  free_op(op.node);
}

detail::PreparedState* Engine::make_prepared(const OpTable* table, void* closure, const Access& access,
                                             std::source_location where) {
  std::unique_ptr<PreparedState> state;
  try {
    state = std::make_unique<PreparedState>();
    check_access(access, core_, where);
    state->has_push_options = has_push_options(access);
    check_push_options(access, where);
    set_push_options(state->push_options, access);
    state->accesses = std::make_unique<AccessNode[]>(access.read.size() + access.mutate.size());
  } catch (...) {
    table->destroy_heap(closure);
    throw;
  }
  state->access_count = fill_accesses(state->accesses.get(), access, nullptr);
  for (std::uint32_t i = 0; i < state->access_count; ++i) retain(state->accesses[i].var);
  state->table = table;
  state->closure = closure;
  state->core = core_;
  state->name = access.name;
  state->where = where;
  core_->retain();
  return state.release();
}

void Engine::push(const PreparedOp& prepared) { submit(make_op(prepared)); }

OpNode* Engine::make_op(const PreparedOp& prepared) {
  PreparedState* state = prepared.state();
  if (!state)
    throw InvalidArgument("push: an empty PreparedOp, moved from; they are made by Engine::prepare");
  if (state->core != core_)
    throw InvalidArgument("push: a PreparedOp of another engine; want one that this engine prepared");
  core_->check_open();
  check_capture(core_);
  OpNode* op = allocate_in_bounds(core_, state->access_count, sizeof(PreparedState*), state->has_push_options,
                                  state->push_options.bytes);
  if (state->has_push_options) op->extra->push_options = state->push_options;
  op->access_count = state->access_count;
  for (std::uint32_t i = 0; i < state->access_count; ++i) {
    AccessNode* access = ::new (&op->accesses()[i]) AccessNode(state->accesses[i]);
    access->op = op;
  }
  retain(state);
  op->flags |= OpNode::kPrepared;
  ::new (op->place()) PreparedState*(state);
  op->table = state->table;
  op->name = state->name;
  op->where = state->where;
  return op;
}

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

}  // namespace

namespace {

// In the child of a fork, ops that were done at the fork count as done; ops that were in flight never end.
std::shared_ptr<const Failure> wait_in_child(VarState& var) {
  constexpr const char* kUnderWay =
      "wait: ops on this var were under way in the parent when it called fork()";
  if (!var.lock.try_lock()) throw Error(kUnderWay);
  const bool done = !var.writer && !var.head && !var.core->scheduler().has_submitted(var);
  std::shared_ptr<const Failure> poison = var.poison;
  var.lock.unlock();
  if (const FenceSet* fences = var.fences) {
    std::shared_ptr<const Failure> failure;
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
  // error with a second reference for one that poisons a var.
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

void Engine::add_progress_source(std::weak_ptr<ProgressSource> progress_source) {
  core_->progress_sources.add(std::move(progress_source));
}

ErrorReport Engine::error_of(const Var& var) const {
  check_var(var, core_, "error_of");
  std::shared_ptr<const Failure> poison;
  {
    std::unique_lock lock(var.state()->lock, std::defer_lock);
    // In the child of a fork a thread of the parent may hold the lock for ever.
    if (!core_->forked()) lock.lock();
    poison = var.state()->poison;
  }
  if (const FenceSet* fences = var.state()->fences.load(std::memory_order_acquire)) {
    std::shared_ptr<const Failure> failure;
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

namespace {

// `number` is the part of the variable's `value` to be parsed.
template <class Number>
Number parse_number(std::string_view number, const char* value, const char* variable, const char* wanted) {
  Number parsed{};
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), parsed);
  if (error != std::errc() || end != number.data() + number.size()) {
    throw InvalidArgument(std::string(variable) + ": got '" + value + "', want " + wanted);
  }
  return parsed;
}

template <class Number> void read_number(const char* variable, Number& number, const char* wanted) {
  const char* value = std::getenv(variable);
  if (value && *value) number = parse_number<Number>(value, value, variable, wanted);
}

void read_seconds(const char* variable, double& seconds) {
  constexpr const char* kWanted = "a number of seconds, 0 for none";
  read_number(variable, seconds, kWanted);
  if (!is_time(seconds))
    throw InvalidArgument(std::string(variable) + ": got '" + std::getenv(variable) + "', want " + kWanted);
}

}  // namespace

EngineOptions EngineOptions::from_environment() {
  constexpr const char* kSchedulers = "threaded, naive, fuzz or fuzz:SEED";
  EngineOptions options;
  if (const char* value = std::getenv("HEDDLE_SCHEDULER"); value && *value) {
    const std::string_view text = value;
    if (text == "naive") {
      options.scheduler = Scheduler::naive;
    } else if (text == "fuzz" || text.starts_with("fuzz:")) {
      options.scheduler = Scheduler::fuzz;
      if (text != "fuzz")
        options.seed = parse_number<std::uint64_t>(text.substr(5), value, "HEDDLE_SCHEDULER", kSchedulers);
    } else if (text != "threaded") {
      throw InvalidArgument("HEDDLE_SCHEDULER: got '" + std::string(text) + "', want " + kSchedulers);
    }
  }
  constexpr const char* kWorkers = "a number from 1 to 1024, or 0 for one a usable core";
  read_number("HEDDLE_WORKERS", options.workers, kWorkers);
  if (options.workers < 0 || options.workers > detail::kMostWorkers) {
    throw InvalidArgument("HEDDLE_WORKERS: got '" + std::to_string(options.workers) + "', want " + kWorkers);
  }
  read_seconds("HEDDLE_WATCHDOG", options.watchdog);
  read_seconds("HEDDLE_SPIN", options.spin);
  read_number("HEDDLE_MAX_OPS", options.max_ops, "a number of ops, or 0 for no bound");
  read_number("HEDDLE_MAX_BYTES", options.max_bytes, "a number of bytes, or 0 for no bound");
  // Checked here, since the access checker reads HEDDLE_CHECK at process start, where it cannot throw.
  if (const char* value = std::getenv("HEDDLE_CHECK"); value && *value) {
    const std::string_view text = value;
    if (text != "0" && text != "1")
      throw InvalidArgument("HEDDLE_CHECK: got '" + std::string(text) + "', want 1 (on) or 0 (off)");
  }
  return options;
}

}  // namespace heddle
