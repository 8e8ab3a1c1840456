// Where kernels report values that they refuse. In plain types: nvcc compiles C++17.
#pragma once

namespace heddle::cuda_kernels {

// In page-locked memory. Of several reports the one with the least `place` stays, so that the error does not depend on
// the order of threads.
struct FaultSlot {
  int lock;
  int found;  // 1 after a report
  int kind;   // what is wrong: numbers of the operator's own
  long long place;
  unsigned long long value;  // the bits of what was refused
};

}  // namespace heddle::cuda_kernels
