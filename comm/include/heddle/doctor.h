// What communication finds on this host, what it would choose, and what stands in its way.
#pragma once

#include <string>
#include <vector>

namespace heddle {

struct Finding {
  enum class Level { ok, note, problem };  // note: works, but perhaps not as wanted
  Level level = Level::ok;
  std::string subject;  // "shared memory"
  std::string text;     // one line
};

// Looks at everything, in the order in which a program meets it. Takes well under a second; forks a child for a moment
// and runs `mpirun --version` if there is one, so call it before there are other threads. Never throws for what it finds.
std::vector<Finding> examine_host();

}  // namespace heddle
