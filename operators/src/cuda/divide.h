// Divisions of indices in kernels: one of 64 bits takes several times as long as one of 32.
#pragma once

#include "gpu/kernel.h"

namespace heddle::cuda_kernels {

struct Quotient {
  long long whole, rest;
};
// The value is at least 0, `by` is above 0.
HEDDLE_DEVICE inline Quotient divide(long long value, long long by) {
  if (by == 1) return {value, 0};
  if (((value | by) >> 32) == 0) {
    const unsigned whole = static_cast<unsigned>(value) / static_cast<unsigned>(by);
    return {whole, static_cast<unsigned>(value) - whole * static_cast<unsigned>(by)};
  }
  const long long whole = value / by;
  return {whole, value - whole * by};
}

// The index-th element of images of these sizes, which are numbered by `plane`.
struct Element {
  long long plane, d, h, w;
};
HEDDLE_DEVICE inline Element element_of(long long index, const long long (&sizes)[3]) {
  const Quotient line = divide(index, sizes[2]), slice = divide(line.whole, sizes[1]),
                 plane = divide(slice.whole, sizes[0]);
  return {plane.whole, plane.rest, slice.rest, line.rest};
}

}  // namespace heddle::cuda_kernels
