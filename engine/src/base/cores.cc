#include "base/cores.h"

#include <vector>

#include <heddle/usable_cores.h>

namespace heddle::detail {

// The system call fails for a set smaller than the kernel's own: larger sets are tried.
std::optional<int> cores_by_affinity() {
  for (unsigned long most = CPU_SETSIZE; most <= 1UL << 20; most *= 4) {
    std::vector<cpu_set_t> sets(most / CPU_SETSIZE);
    const std::size_t bytes = sets.size() * sizeof(cpu_set_t);
    if (sched_getaffinity(0, bytes, sets.data()) == 0) return CPU_COUNT_S(bytes, sets.data());
  }
  return std::nullopt;
}

}  // namespace heddle::detail

namespace heddle {

// Takes the core out of the thread's affinity, which moves it, and puts it back.
void change_core() noexcept {
  cpu_set_t before;
  const int core = detail::this_core();
  if (core < 0 || core >= CPU_SETSIZE || sched_getaffinity(0, sizeof before, &before) != 0) return;
  cpu_set_t others = before;
  CPU_CLR(static_cast<unsigned>(core), &others);
  if (CPU_COUNT(&others) == 0 || sched_setaffinity(0, sizeof others, &others) != 0) return;
  sched_setaffinity(0, sizeof before, &before);
}

}  // namespace heddle
