// How much of a process's communication was hidden behind computing ops.
#pragma once

#include <cstdint>
#include <vector>

#include "trace_file.h"

namespace heddle::tool {

// Communication of a process: collectives, and calls of a store on servers.
struct CommunicationUse {
  std::uint64_t process = 0, ops = 0;
  std::int64_t time = 0;    // nanoseconds in which at least one op was ready or running, and not done
  std::int64_t hidden = 0;  // the part of `time` in which another op computed
};

// The communication of each process that communicated, in the order of process numbers.
std::vector<CommunicationUse> watch_communication(const Trace& trace);

}  // namespace heddle::tool
