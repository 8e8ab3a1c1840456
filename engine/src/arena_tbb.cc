#include <optional>

#include <tbb/task_arena.h>

#include "arena.h"
#include "fork.h"

namespace heddle::detail {

struct Arena::Impl {
  std::optional<tbb::task_arena> arena;
};

// All slots are reserved for our workers. Were TBB's own threads let in, a worker that came back could find its slot
// taken, and TBB would hand its loop to a thread that waits inside an op's parallel loop: ops would run on top of
// that op.
//
// In the child of a fork() there is no arena: a thread of the parent may have held one of TBB's locks, and nobody will
// ever let it go here.
Arena::Arena(int cores) : impl_(new Impl) {
  if (fork_generation() == 0) impl_->arena.emplace(cores, static_cast<unsigned>(cores));
}
Arena::~Arena() = default;
void Arena::run(void (*fn)(void*), void* argument) {
  if (!impl_->arena) return fn(argument);
  impl_->arena->execute([=] { fn(argument); });
}

}  // namespace heddle::detail
