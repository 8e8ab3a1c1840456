// What tests ask of the emulated GPU; a real one tells nothing. emulated_problems.cc or real_problems.cc defines it.
#pragma once

#include <cstdint>
#include <string>

bool is_emulated();          // whether the GPUs are the emulated ones
std::string problems();      // everything that was found wrong since the last call
std::uint64_t host_waits();  // how often the host has waited for a device
// How often recorded work of a graph was enqueued; more at each call on a real GPU, which does not tell.
std::uint64_t replays();
// Sets the orders of the emulated GPU's work for streams made from now on; does nothing to a real one.
void reorder(std::uint64_t seed, bool stepped, int delay);
