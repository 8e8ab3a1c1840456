// Places in images of up to three spatial axes, for kernels of convolutions.
#pragma once

#include "cuda/divide.h"

namespace heddle::cuda_kernels {

struct Place {
  long long d, h, w;
};
// The index-th element of an image, or tap of a kernel.
HEDDLE_DEVICE inline Place place_of(long long index, const long long (&sizes)[3]) {
  const Quotient row = divide(index, sizes[2]);
  if (sizes[0] == 1) return {0, row.whole, row.rest};
  const Quotient slice = divide(row.whole, sizes[1]);
  return {slice.whole, slice.rest, row.rest};
}
HEDDLE_DEVICE inline Place times(const Place& place, const long long (&by)[3]) {
  return {place.d * by[0], place.h * by[1], place.w * by[2]};
}
HEDDLE_DEVICE inline Place plus(const Place& a, const Place& b) { return {a.d + b.d, a.h + b.h, a.w + b.w}; }
HEDDLE_DEVICE inline Place before(const Place& place, const long long (&by)[3]) {
  return {place.d - by[0], place.h - by[1], place.w - by[2]};
}
HEDDLE_DEVICE inline bool inside(const Place& place, const long long (&sizes)[3]) {
  return place.d >= 0 && place.d < sizes[0] && place.h >= 0 && place.h < sizes[1] && place.w >= 0 &&
         place.w < sizes[2];
}
HEDDLE_DEVICE inline long long index_of(const Place& place, const long long (&sizes)[3]) {
  return (place.d * sizes[1] + place.h) * sizes[2] + place.w;
}

}  // namespace heddle::cuda_kernels
