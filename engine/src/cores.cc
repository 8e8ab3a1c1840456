#include "cores.h"

namespace heddle::detail {

bool has_one_core() noexcept {
  cpu_set_t cores;
  return sched_getaffinity(0, sizeof cores, &cores) == 0 && CPU_COUNT(&cores) == 1;
}

bool keep_off(pid_t thread, int core, cpu_set_t& before) noexcept {
  if (core < 0 || core >= CPU_SETSIZE || sched_getaffinity(thread, sizeof before, &before) != 0) return false;
  cpu_set_t others = before;
  CPU_CLR(static_cast<unsigned>(core), &others);
  return CPU_COUNT(&others) > 0 && sched_setaffinity(thread, sizeof others, &others) == 0;
}

void allow(const cpu_set_t& cores) noexcept { sched_setaffinity(0, sizeof cores, &cores); }

void change_core() noexcept {
  cpu_set_t before;
  if (keep_off(0, this_core(), before)) allow(before);
}

}  // namespace heddle::detail
