#include "base/cores.h"

#include <vector>

#include <heddle/usable_cores.h>

namespace heddle::detail {

// The kernel refuses a set that is too small for all cores it knows.
std::optional<int> cores_by_affinity() {
  for (unsigned long most = CPU_SETSIZE; most <= 1UL << 20; most *= 4) {
    std::vector<cpu_set_t> sets(most / CPU_SETSIZE);
    const std::size_t bytes = sets.size() * sizeof(cpu_set_t);
    if (sched_getaffinity(0, bytes, sets.data()) == 0) return CPU_COUNT_S(bytes, sets.data());
  }
  return std::nullopt;
}

bool exclude_core(pid_t thread, int core, cpu_set_t& before) noexcept {
  if (core < 0 || core >= CPU_SETSIZE || sched_getaffinity(thread, sizeof before, &before) != 0) return false;
  cpu_set_t others = before;
  CPU_CLR(static_cast<unsigned>(core), &others);
  return CPU_COUNT(&others) > 0 && sched_setaffinity(thread, sizeof others, &others) == 0;
}

void restore_affinity(const cpu_set_t& before) noexcept { sched_setaffinity(0, sizeof before, &before); }

}  // namespace heddle::detail

namespace heddle {

void change_core() noexcept {
  cpu_set_t before;
  if (detail::exclude_core(0, detail::this_core(), before)) detail::restore_affinity(before);
}

}  // namespace heddle
