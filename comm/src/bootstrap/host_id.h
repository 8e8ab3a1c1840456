// What tells ranks whether they are on one host, as far as that matters to them.
#pragma once

#include <string>

namespace heddle::comm_detail {

// Ranks of which this differs cannot see each other's memory, or are not to: HEDDLE_COMM_HOST is in it. No spaces.
// Throws InvalidArgument for that, CommError if the system does not say.
std::string memory_world();

// Ranks of which this is the same reach each other over loopback: one kernel, and not in different containers.
std::string network_world();

}  // namespace heddle::comm_detail
