// Simulated lifetimes of a communicator, drawn from a seed. Both functions return an error text; "" if
// nothing is wrong.
#pragma once

#include <cstdint>
#include <string>

namespace heddle::test {

// Simulates collectives, while ops fail, ranks die, or a rank makes a different call.
std::string simulate_calls(std::uint64_t seed);
// Simulates how survivors agree, while more ranks die, pause, or do not take part.
std::string simulate_survivors(std::uint64_t seed);

}  // namespace heddle::test
