// Pushes: an op is allocated within the bounds of its engine, and filled in.
#include <bit>
#include <memory>
#include <new>
#include <string>

#include <heddle/call_site.h>
#include <heddle/engine.h>

#include "api/access_list.h"
#include "core/capture.h"
#include "core/core.h"

namespace heddle {
namespace detail {

void retain(PreparedState* state) noexcept { state->refs.fetch_add(1, std::memory_order_relaxed); }

void release(PreparedState* state) noexcept {
  if (state->refs.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  state->table->destroy_heap(state->closure);
  for (std::uint32_t i = 0; i < state->access_count; ++i) release(state->accesses[i].var);
  state->core->release();
  delete state;
}

[[noreturn]] void throw_bad_var(const VarState* var, const std::string& who, Where where) {
  const CallSite site(where);
  throw InvalidArgument(who +
                        (var ? ": a Var of another engine; want one that this engine made"
                             : ": an empty Var, never made or moved from; vars are made by Engine::new_var"));
}

namespace {

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

// Finds repeats with a hash table, with open addressing, of the first access to each var.
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

}  // namespace

std::uint32_t fill_accesses(AccessNode* nodes, const Access& access, OpNode* op) noexcept {
  constexpr std::ptrdiff_t kFew = 8;
  AccessNode* end = nodes;
  for (VarState* var : access.read) ::new (end++) AccessNode{op, var, nullptr, true, false, false};
  for (VarState* var : access.mutate) ::new (end++) AccessNode{op, var, nullptr, false, true, false};
  if (end - nodes > 1) end = end - nodes <= kFew ? merge_few(nodes, end) : merge_many(nodes, end);
  return static_cast<std::uint32_t>(end - nodes);
}

namespace {

bool has_push_options(const Access& access) {
  return access.group.state || access.priority != 0 || access.bytes != 0;
}

// Out of line, like set_push_options(), since most ops have no options.
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

}  // namespace
}  // namespace detail

using namespace detail;

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

}  // namespace heddle
