// Whole lives of a communicator, each drawn from a seed. Both say what went wrong; nothing: "".
#pragma once

#include <cstdint>
#include <string>

namespace heddle::test {

// Collectives, while ops fail, ranks die, or one calls something else.
std::string simulate_calls(std::uint64_t seed);
// What is left of a communicator agrees, while more of it dies, stands still, or does not come.
std::string simulate_survivors(std::uint64_t seed);

}  // namespace heddle::test
