// Examines whether and how communication works on this host.
#pragma once

#include <string>
#include <vector>

namespace heddle {

struct Finding {
  enum class Level { ok, note, problem };  // note: communication works, but perhaps not as expected
  Level level = Level::ok;
  std::string subject;  // what was examined, such as "shared memory"
  std::string text;     // what was found, in one line
};

// Examines the job, the network, shared memory, cores and optional libraries. Takes well under a second. Forks a child
// process and runs `mpirun --version`, so call it before the program has other threads. Problems are findings, not
// exceptions.
std::vector<Finding> examine_host();

}  // namespace heddle
