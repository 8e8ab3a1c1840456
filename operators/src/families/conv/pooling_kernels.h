// The kernels of pooling that a device provides.
#pragma once

#include <algorithm>
#include <cstdint>

#include <heddle/kernel_context.h>
#include <heddle/ndarray.h>

#include "families/conv/spatial_kernels.h"

namespace heddle {

// The parameters of a pooling.
struct PoolProblem {
  int axes;             // of the images: 1 to 3
  std::int64_t planes;  // N * C
  Spatial in, out;
  // These numbers describe windows that all have one size. Each window has at least one element of the image.
  Spatial kernel, stride, padding, dilation;
  bool adaptive;  // windows that divide the image instead, without padding and dilation
  bool count_include_pad;
};

// The part of a window along one axis that lies inside the image: the elements begin, begin + dilation, ... before end.
struct PoolSpan {
  std::int64_t begin, end;
  std::int64_t padded;  // number of elements inside the padded image
};

inline PoolSpan pool_span(const PoolProblem& p, std::size_t axis, std::int64_t i) {
  const std::int64_t in = p.in[axis], out = p.out[axis];
  if (p.adaptive) {
    __extension__ using Wide = __int128;  // the product may have more than 64 bits
    const auto place = [=](std::int64_t k, std::int64_t more) {
      return static_cast<std::int64_t>((static_cast<Wide>(k) * in + more) / out);
    };
    const std::int64_t begin = place(i, 0), end = place(i + 1, out - 1);
    return {begin, end, end - begin};
  }
  const std::int64_t start = i * p.stride[axis] - p.padding[axis], step = p.dilation[axis];
  const std::int64_t past = start + (p.kernel[axis] - 1) * step + 1;
  return {start < 0 ? (start % step + step) % step : start, std::min(past, in),
          std::min(past, in + p.padding[axis]) - start};
}

// At least as many elements as a window has inside the image along each axis.
inline Spatial most_in_window(const PoolProblem& p) {
  Spatial most;
  for (std::size_t axis = 0; axis < kSpatial; ++axis)
    most[axis] = std::min(p.in[axis], p.adaptive ? p.in[axis] / p.out[axis] + 2 : p.kernel[axis]);
  return most;
}

// Arrays are contiguous. `where` is the position of each maximum among the elements of its window that are inside the image:
// (slice * most[1] + row) * most[2] + column, with most_in_window(). It has the dtype u8, i32 or i64. It may be undefined in
// the forward pass if no gradient is needed.
using MaxPoolKernel = void(const KernelContext& context, const PoolProblem& problem, const NDArray& x,
                           const NDArray& y, const NDArray& where);
using MaxPoolBackwardKernel = void(const KernelContext& context, const PoolProblem& problem,
                                   const NDArray& grad, const NDArray& where, const NDArray& x_grad);
using AvgPoolKernel = void(const KernelContext& context, const PoolProblem& problem, const NDArray& x,
                           const NDArray& y);
using AvgPoolBackwardKernel = void(const KernelContext& context, const PoolProblem& problem,
                                   const NDArray& grad, const NDArray& x_grad);

}  // namespace heddle
