// How much of a process's communication was hidden behind computing ops.
#pragma once

#include <cstdint>
#include <vector>

#include "trace_file.h"

namespace heddle::tool {

// The communication of one process: collectives, and calls of a key-value store on servers.
struct CommunicationUse {
  std::uint64_t process = 0, ops = 0;
  std::int64_t time = 0;    // nanoseconds in which at least one communicating op was under way
  std::int64_t hidden = 0;  // nanoseconds of `time` in which an op that does not communicate computed
};

// The communication of each process that communicated, in the order of process numbers.
std::vector<CommunicationUse> watch_communication(const Trace& trace);

}  // namespace heddle::tool
