// The logarithm of the absolute value of the gamma function, for both compilers.
#pragma once

#include <cmath>

#include "core/functor.h"

namespace heddle::functors {
namespace {  // as in the files of the CPU's kernels, which are compiled for several kinds of CPUs

// Not std::lgamma on the CPU, which writes a global variable.
HEDDLE_FUNCTOR inline double log_gamma(double x) {
#ifdef __CUDACC__
  return ::lgamma(x);
#else
  int sign = 0;
  return ::lgamma_r(x, &sign);
#endif
}

}  // namespace
}  // namespace heddle::functors
