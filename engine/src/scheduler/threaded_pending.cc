// What threads may know of an engine that runs on.
#include <mutex>

#include "diagnostics/pending.h"
#include "op/op_memory.h"
#include "scheduler/threaded.h"

namespace heddle::detail {

// The ended ones are read first: they never exceed the entered ones.
std::int64_t ThreadedCore::in_flight() {
  std::uint64_t ended = 0;
  for (int epoch : {0, 1}) {
    ended += ended_without_slot_[epoch].load(std::memory_order_acquire);
    for (const WorkerSlot& slot : slots_) ended += slot.ended[epoch].load(std::memory_order_acquire);
  }
  std::uint64_t pushed = 0;
  for (int epoch : {0, 1}) {
    pushed += children_without_slot_[epoch].load(std::memory_order_acquire);
    for (const WorkerSlot& slot : slots_) pushed += slot.children[epoch].load(std::memory_order_acquire);
  }
  std::lock_guard guard(submissions_);
  return static_cast<std::int64_t>(pushed + entered_[0] + entered_[1] - ended);
}

// When all workers are blocked in ops, nobody enters what is pushed: does so here, as what waits for what shows only then.
void ThreadedCore::enter_some() {
  constexpr int kMostRounds = 64;
  // Round by round: what this thread has in its hands others can neither run nor see.
  ReadyList ready;
  for (int round = 0; round < kMostRounds && enter_batch(ready) > 0; ++round) schedule(ready);
  if (this_worker()) return;
  op_memory_flush();
  check_balance();
}

void ThreadedCore::enter_submitted() {
  while (!submissions_.empty()) enter_some();
}

void ThreadedCore::visit_pending(Pending& pending) {
  enter_some();
  const auto see_ready = [&](const OpNode& op) { return pending.see(op, PendingState::ready); };
  for (const WorkerSlot& slot : slots_) slot.queue.for_each(see_ready);
  ready_without_slot_.for_each(see_ready);
  std::lock_guard guard(submissions_);
  submissions_.for_each([&](const QueueNode& node) {
    return node.kind == OpKind::drop || node.kind == OpKind::mark ||
           pending.see(static_cast<const OpNode&>(node), PendingState::submitted);
  });
}

}  // namespace heddle::detail
