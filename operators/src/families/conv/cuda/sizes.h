// The sizes of a problem with windows, for the plain types of its kernels.
#pragma once

#include <cstddef>

#include "families/conv/spatial_kernels.h"

namespace heddle::cuda_kernels {

template <class Problem, class Plain> void copy_sizes(const Problem& p, Plain& to) {
  for (std::size_t axis = 0; axis < kSpatial; ++axis) {
    to.in[axis] = p.in[axis];
    to.out[axis] = p.out[axis];
    to.kernel[axis] = p.kernel[axis];
    to.stride[axis] = p.stride[axis];
    to.dilation[axis] = p.dilation[axis];
    to.padding[axis] = p.padding[axis];
  }
}

}  // namespace heddle::cuda_kernels
