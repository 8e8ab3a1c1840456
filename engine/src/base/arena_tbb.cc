#include <atomic>
#include <optional>
#include <unistd.h>

#include <tbb/task_arena.h>

#include "base/arena.h"
#include "base/fork.h"

namespace heddle::detail {
namespace {

std::atomic<bool> process_ends{false};

// Runs after the destructors of static objects and before TBB's own, which frees what a thread in an arena needs. A
// thread of an engine is left by then only if exit() was called inside an op.
[[gnu::destructor]] void note_end_of_process() { process_ends.store(true, std::memory_order_release); }

void stop_if_process_ends() {
  while (process_ends.load(std::memory_order_acquire)) pause();
}

}  // namespace

struct Arena::Impl {
  std::optional<tbb::task_arena> arena;
  std::atomic<int> free_slots{0};
};

// All slots of the arena are reserved for the engine's threads, and no more threads enter than there are
// slots. If TBB's own threads could enter, an engine thread that enters again could find no free slot. TBB
// would then hand the function that this thread wants to run to a thread that waits inside an op's parallel
// loop, and ops would run on top of that op.
//
// In the child of a fork() there is no arena: a thread of the parent may have held one of TBB's locks, which is never
// released in the child.
Arena::Arena(int cores) : impl_(new Impl) {
  if (fork_generation() > 0) return;
  impl_->arena.emplace(cores, static_cast<unsigned>(cores));
  impl_->free_slots = cores;
}
Arena::~Arena() = default;
void Arena::run(void (*fn)(void*), void* argument) {
  stop_if_process_ends();
  // A thread that blocks inside the arena keeps its slot. The thread that runs ops in its place may find no
  // free slot, and then stays outside of the arena.
  if (impl_->free_slots.fetch_sub(1) > 0) {
    impl_->arena->execute([=] {
      fn(argument);
      stop_if_process_ends();
    });
  } else if (impl_->arena) {
    // An arena of one slot: TBB's own threads would take part in a loop that runs in its default arena.
    tbb::task_arena(1, 1).execute([=] {
      fn(argument);
      stop_if_process_ends();
    });
  } else {
    fn(argument);
  }
  impl_->free_slots.fetch_add(1);
}

}  // namespace heddle::detail
