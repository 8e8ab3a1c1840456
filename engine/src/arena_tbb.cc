#include <algorithm>

#include <tbb/info.h>
#include <tbb/task_arena.h>

#include "arena.h"

namespace heddle::detail {

struct Arena::Impl {
  tbb::task_arena arena;
};

// Slots that TBB's own threads never fill are reserved, so that TBB is not asked for more threads than it has.
Arena::Arena(int cores)
    : impl_(new Impl{tbb::task_arena(
          cores, static_cast<unsigned>(std::max(1, cores - tbb::info::default_concurrency() + 1)))}) {}
Arena::~Arena() = default;
void Arena::run(void (*fn)(void*), void* argument) {
  impl_->arena.execute([=] { fn(argument); });
}

}  // namespace heddle::detail
