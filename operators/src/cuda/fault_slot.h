// Where kernels report values that they refuse. In plain types: nvcc compiles C++17.
#pragma once

namespace heddle::cuda_kernels {

constexpr long long kNoPlace = 0x7fffffffffffffffll;

// In page-locked memory. Of several reports the one with the least `place` stays, so that the error does not depend on
// the order of threads.
struct FaultSlot {
  int lock = 0;
  int found = 0;  // 1 after a report
  int kind = 0;   // what is wrong: numbers of the operator's own
  long long place = kNoPlace;
  unsigned long long value = 0;  // the bits of what was refused
  unsigned long long other = 0;  // of a second number for the message
};

}  // namespace heddle::cuda_kernels
