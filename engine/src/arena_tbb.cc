#include <tbb/task_arena.h>

#include "arena.h"

namespace heddle::detail {

struct Arena::Impl {
  tbb::task_arena arena;
};

// All slots are reserved for our workers. Were TBB's own threads let in, a worker that came back could find its slot
// taken, and TBB would hand its loop to a thread that waits inside an op's parallel loop: ops would run on top of
// that op.
Arena::Arena(int cores) : impl_(new Impl{tbb::task_arena(cores, static_cast<unsigned>(cores))}) {}
Arena::~Arena() = default;
void Arena::run(void (*fn)(void*), void* argument) {
  impl_->arena.execute([=] { fn(argument); });
}

}  // namespace heddle::detail
