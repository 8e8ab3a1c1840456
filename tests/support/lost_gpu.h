// What test programs look at between parts of their work, for tools/gpu-check.
#pragma once

#include <cstdlib>
#include <exception>
#include <string>

#include <heddle/device.h>
#include <heddle/gpu_memory.h>

namespace heddle::test {

// Whether HEDDLE_TEST_NUMBERS is set: parts have a line "#N name" on standard output before they run, the last one "#end" behind
// it. --first=N begins with part N.
inline bool numbered() { return std::getenv("HEDDLE_TEST_NUMBERS") != nullptr; }

// Why CUDA cannot use one of the GPUs any more; empty if it can use all.
inline std::string lost_gpu() {
  try {
    for (int i = 0; i < gpu_count(); ++i) gpu_memory_stats(gpu(i));
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

}  // namespace heddle::test
