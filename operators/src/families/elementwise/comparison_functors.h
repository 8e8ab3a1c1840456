// Function objects of comparisons, for kernels of the CPU and of GPUs: C++17, as nvcc compiles it. Names
// have internal linkage, as in the files of the CPU's kernels, which are compiled for several kinds of CPUs.
#pragma once

#include "core/functor.h"

namespace heddle::functors {
namespace {

// Whether two floats are equal, or both NaN.
struct Same {
  template <class T> HEDDLE_FUNCTOR bool operator()(T a, T b) const {
    return int{a == b} | (int{a != a} & int{b != b});
  }
};

struct LogicalAnd {
  template <class T> HEDDLE_FUNCTOR bool operator()(T a, T b) const { return a != T{0} && b != T{0}; }
};
struct LogicalOr {
  template <class T> HEDDLE_FUNCTOR bool operator()(T a, T b) const { return a != T{0} || b != T{0}; }
};
struct LogicalXor {
  template <class T> HEDDLE_FUNCTOR bool operator()(T a, T b) const { return (a != T{0}) != (b != T{0}); }
};

}  // namespace
}  // namespace heddle::functors
