// Entering of ops on behalf of other threads, and what diagnostics read of an engine while it runs.
#include <mutex>

#include "diagnostics/pending.h"
#include "op/op_memory.h"
#include "scheduler/threaded.h"

namespace heddle::detail {

// When all workers are blocked in ops, none of them enters submitted ops, and which op waits for which is known only once they
// are entered. So the calling thread enters them.
void ThreadedScheduler::enter_some() {
  constexpr int kMostRounds = 64;
  // Ops are entered batch by batch: those that this thread holds in `ready` can neither be run nor seen by
  // other threads.
  ReadyList ready;
  for (int round = 0; round < kMostRounds && enter_batch(ready) > 0; ++round) schedule(ready);
  if (this_worker()) return;
  op_memory_flush();
  epochs_.check();
}

void ThreadedScheduler::enter_submitted() {
  while (!submissions_.empty()) enter_some();
}

void ThreadedScheduler::visit_pending(Pending& pending) {
  enter_some();
  const auto see_ready = [&](const OpNode& op) { return pending.see(op, PendingState::ready); };
  for (const WorkerSlot& slot : slots_) slot.queue.for_each(see_ready);
  ready_without_slot_.for_each(see_ready);
  std::lock_guard guard(submissions_);
  submissions_.for_each([&](const QueueNode& node) {
    return node.kind == OpKind::delete_var || node.kind == OpKind::epoch_end ||
           pending.see(static_cast<const OpNode&>(node), PendingState::submitted);
  });
}

}  // namespace heddle::detail
