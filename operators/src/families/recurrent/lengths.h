// The error of a length outside of its range. Kernels of the CPU and of GPUs share its text.
#pragma once

#include <cstdint>
#include <string>

#include <heddle/array_error.h>

namespace heddle {

[[noreturn]] inline void refuse_length(const char* op, std::int64_t element, const std::string& length,
                                       std::int64_t steps) {
  throw InvalidArgument(std::string(op) + ": lengths[" + std::to_string(element) + "] is " + length +
                        "; want 0 to " + std::to_string(steps));
}

}  // namespace heddle
