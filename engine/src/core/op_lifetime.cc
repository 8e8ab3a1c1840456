// The life of an op: its allocation, the destruction of its closure, its end.
#include "core/core.h"
#include "op/op_memory.h"

namespace heddle::detail {

namespace {
std::size_t aligned(std::size_t bytes) { return (bytes + kClosureAlign - 1) / kClosureAlign * kClosureAlign; }
}  // namespace

OpNode* allocate_op(EngineCore* core, std::size_t accesses, std::size_t closure_bytes, bool extra) {
  extra = extra || core->extra_for_all;
  const std::size_t extra_at = sizeof(OpNode) + accesses * sizeof(AccessNode);
  const std::size_t closure_at = extra_at + (extra ? aligned(sizeof(OpExtra)) : 0);
  const std::size_t bytes = closure_at + closure_bytes;
  auto* memory = static_cast<std::byte*>(op_allocate(bytes));
  auto* op = ::new (memory) OpNode;
  if (bytes > kLargestOp) op->flags = OpNode::kAlone;
  op->closure_at = static_cast<std::uint32_t>(closure_at);
  if (extra) {
    op->extra = ::new (memory + extra_at) OpExtra;
    op->extra->core = core;
  }
  return op;
}

void* closure_of(OpNode* op) noexcept {
  if (op->flags & OpNode::kOfGraph) [[unlikely]]
    return *static_cast<void**>(op->place());
  return op->flags & OpNode::kPrepared ? (*static_cast<PreparedState**>(op->place()))->closure : op->place();
}

void tell_skipped(OpNode* op, const Failure& why) noexcept {
  if (op->table && op->table->skipped) op->table->skipped(closure_of(op), why.root->exception);
}

void destroy_closure(OpNode* op) noexcept {
  if (op->flags & OpNode::kOfGraph) [[unlikely]]
    return;
  if (op->flags & OpNode::kPrepared) {
    release(*static_cast<PreparedState**>(op->place()));
  } else if (op->table && op->table->destroy) {
    op->table->destroy(op->place());
  }
}

void free_op(OpNode* op) noexcept {
  if (OpExtra* extra = op->extra) {
    // Later launches of the graph may hold the vars through op; the last user frees op. acq_rel: it comes after what
    // the others did with op.
    if (extra->users.load(std::memory_order_acquire) != 1 &&
        extra->users.fetch_sub(1, std::memory_order_acq_rel) != 1)
      return;
    if (extra->holder) free_op(extra->holder);
    extra->~OpExtra();
  }
  op_free(op, op->closure_at, op->flags & OpNode::kAlone);
}

}  // namespace heddle::detail
