#include <atomic>
#include <optional>
#include <unistd.h>

#include <tbb/task_arena.h>

#include "base/arena.h"
#include "base/fork.h"

namespace heddle::detail {
namespace {

std::atomic<bool> process_ends{false};

// After the destructors of static objects, and before TBB's own, which frees what a thread in an arena needs. A thread is left
// then only if exit() was called inside an op.
[[gnu::destructor]] void note_end_of_process() { process_ends.store(true, std::memory_order_release); }

void stop_if_process_ends() {
  while (process_ends.load(std::memory_order_acquire)) pause();
}

}  // namespace

struct Arena::Impl {
  std::optional<tbb::task_arena> arena;
  std::atomic<int> places{0};
};

// All slots are reserved for our threads, and no more of them are let in than there are. Were TBB's own threads let in, a
// thread that came back could find its slot taken, and TBB would hand its loop to a thread that waits inside an op's
// parallel loop: ops would run on top of that op.
//
// In the child of a fork() there is no arena: a thread of the parent may have held one of TBB's locks, and nobody will
// ever let it go here.
Arena::Arena(int cores) : impl_(new Impl) {
  if (fork_generation() > 0) return;
  impl_->arena.emplace(cores, static_cast<unsigned>(cores));
  impl_->places = cores;
}
Arena::~Arena() = default;
void Arena::run(void (*fn)(void*), void* argument) {
  stop_if_process_ends();
  // A thread blocked inside keeps its place; what is run meanwhile by one more is run outside.
  if (impl_->places.fetch_sub(1) > 0) {
    impl_->arena->execute([=] {
      fn(argument);
      stop_if_process_ends();
    });
  } else if (impl_->arena) {
    // In TBB's default arena its own threads would join in.
    tbb::task_arena(1, 1).execute([=] {
      fn(argument);
      stop_if_process_ends();
    });
  } else {
    fn(argument);
  }
  impl_->places.fetch_add(1);
}

}  // namespace heddle::detail
