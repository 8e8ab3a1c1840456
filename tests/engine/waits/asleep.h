// Tells whether another thread sleeps, so that a test can wait until the thread blocks.
#pragma once

#include <cstddef>
#include <fstream>
#include <string>
#include <sys/types.h>

namespace heddle::test {

// Whether `thread`, a thread of this process, sleeps. True, too, if it has ended.
inline bool is_asleep(pid_t thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
  std::string line;
  std::getline(file, line);
  const std::size_t name_end = line.rfind(") ");
  return name_end == std::string::npos || line[name_end + 2] == 'S';
}

}  // namespace heddle::test
