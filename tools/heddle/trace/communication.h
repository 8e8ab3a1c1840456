// How much of what a process communicated was hidden behind its ops.
#pragma once

#include <cstdint>
#include <vector>

#include "trace_file.h"

namespace heddle::tool {

// Ops that communicate: collectives, and the pushes, pulls and other calls of a store whose values servers have.
struct CommunicationUse {
  std::uint64_t process = 0, ops = 0;
  std::int64_t time = 0;  // nanoseconds in which at least one was under way: it could start, and was not done
  std::int64_t hidden = 0;  // the part of `time` in which an op computed that does not communicate
};

// What each process of the trace that communicated spent on it, in the order of their numbers.
std::vector<CommunicationUse> watch_communication(const Trace& trace);

}  // namespace heddle::tool
