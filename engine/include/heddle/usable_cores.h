// How much of the machine this process may use.
#pragma once

#include <string>

namespace heddle {

struct UsableCores {
  int online = 1;       // cores of the machine that are online
  int by_affinity = 1;  // cores that the calling thread may run on: taskset, Slurm, cpusets
  // CPU time that the control groups (v1 or v2) of a container allow, in cores; 0: no limit.
  double by_quota = 0;
  // How many threads can compute at once: the smaller of by_affinity and by_quota, rounded up; at least 1.
  int count() const;
};

// Reads /proc and /sys below `root` at each call. A file that cannot be read counts as no limit.
UsableCores usable_cores(const std::string& root = "");

// Moves the calling thread from the core that it runs on to another one, if it may use any; else does nothing.
void change_core() noexcept;

}  // namespace heddle
