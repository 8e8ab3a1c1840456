// How much of the machine this process may use.
#pragma once

#include <string>

namespace heddle {

struct UsableCores {
  int online = 1;       // of the machine
  int by_affinity = 1;  // that the calling thread may run on: taskset, Slurm, cpusets
  double by_quota =
      0;  // cores' worth of time that the control groups, v1 or v2, allow: containers; 0: as much as there is
  int count()
      const;  // threads that can compute at once: the fewer of both, a part of a core as one; 1 at least
};

// Reads files of the system each time, below `root`. What cannot be read limits nothing.
UsableCores usable_cores(const std::string& root = "");

// Moves the calling thread from the core that it runs on to another one, if it may use any; else does nothing.
void change_core() noexcept;

}  // namespace heddle
