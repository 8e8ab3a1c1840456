#include <atomic>
#include <optional>
#include <unistd.h>

#include <tbb/task_arena.h>

#include "base/arena.h"
#include "base/fork.h"

namespace heddle::detail {

struct Arena::Impl {
  std::optional<tbb::task_arena> arena;
  std::atomic<int> places{0};
  std::atomic<bool> abandoned{false};
  // The thread that ends the process is inside an op, and does not come here.
  void stop_if_abandoned() const {
    while (abandoned.load(std::memory_order_acquire)) pause();
  }
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
  impl_->stop_if_abandoned();
  // A thread blocked inside keeps its place; what is run meanwhile by one more is run outside.
  if (impl_->places.fetch_sub(1) > 0) {
    impl_->arena->execute([=, this] {
      fn(argument);
      impl_->stop_if_abandoned();
    });
  } else if (impl_->arena) {
    // In TBB's default arena its own threads would join in.
    tbb::task_arena(1, 1).execute([=, this] {
      fn(argument);
      impl_->stop_if_abandoned();
    });
  } else {
    fn(argument);
  }
  impl_->places.fetch_add(1);
}

void Arena::abandon() noexcept { impl_->abandoned.store(true, std::memory_order_release); }

}  // namespace heddle::detail
