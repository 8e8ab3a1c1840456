// Function objects of selection, for kernels of the CPU and of GPUs: C++17, as nvcc compiles it. Names have internal linkage, as in
// the files of the CPU's kernels, which are compiled for several kinds of CPUs.
#pragma once

#include "core/functor.h"

namespace heddle::functors {
namespace {

// NaN stays NaN.
struct Clip {
  template <class T> HEDDLE_FUNCTOR T operator()(T value, T least, T most) const {
    return value < least ? least : value > most ? most : value;
  }
};

}  // namespace
}  // namespace heddle::functors
