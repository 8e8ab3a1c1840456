// Model of WorkerSlots and ThreadPool::await_slot: a worker slot has at most one holder, and no slot stays
// free while a thread waits for a slot.

#include "model.h"
#include "relacy_threads.h"

#define std model_std
#define __builtin_ia32_pause model::step
#include <product/scheduler/thread_pool.cc>

#include <heddle/error.h>
#undef std
#undef __builtin_ia32_pause

namespace {

using heddle::detail::ThreadPool;
using heddle::detail::WorkerSlot;
using heddle::detail::WorkerSlots;

// Waiting threads need a slot to continue an op; worker threads take a slot only if one is free. Relacy
// reports an endless wait as a deadlock.
template <int Count, int Waiters, int Runners>
struct Contest : model::Schedule<Contest<Count, Waiters, Runners>, Waiters + Runners> {
  WorkerSlots slots{Count};
  ThreadPool pool{slots, {}};
  model::Plain<int> holds[Count];

  void thread(unsigned index) {
    if (index < Waiters) return use(*pool.await_slot([] { return std::uint64_t{0}; }));
    WorkerSlot* last = nullptr;
    for (int i = 0; i < 2; ++i) {
      WorkerSlot* slot = slots.take(last);
      if (!slot) continue;
      last = slot;
      use(*slot);
    }
  }
  void use(WorkerSlot& slot) {
    auto& held = holds[slot.index];
    model::check(held.get() == 0, "a slot has two holders");
    held.set(1);
    held.set(0);
    slots.release(slot);
    pool.slot_released();
  }
  void after() { model::check(slots.all_free() && !pool.slot_wanted(), "a slot is lost"); }
};

}  // namespace

int main(int argc, char** argv) {
  model::times_out = false;  // so that a missed wake-up shows as a deadlock, which a timeout would end
  using model::program;
  using model::random_program;
  return model::run_models(
      argc, argv,
      {program<Contest<1, 2, 1>>("1 slot, 2 waiters, 1 worker"),
       program<Contest<1, 1, 2>>("1 slot, 1 waiter, 2 workers"),
       random_program<Contest<2, 2, 2>>("2 slots, 2 waiters, 2 workers")},
      {"ThreadPool::await_slot fetch_add acq_rel", "ThreadPool::slot_wanted load acquire",
       "WorkerSlots::take load acquire", "WorkerSlots::release store relaxed",
       "WorkerSlots::release fetch_add acq_rel", "WorkerSlots::try_take exchange release"});
}
