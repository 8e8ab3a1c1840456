// The kernel type of resampling.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <heddle/kernel_context.h>
#include <heddle/ndarray.h>
#include <heddle/resample.h>

namespace heddle {

// One spatial axis: `in` elements become `out`. step: the distance between the places of two output elements, in elements of the input,
// where the caller has given a scale; else 0, and it follows from the sizes.
struct ResampleAxis {
  std::int64_t in = 1, out = 1;
  double step = 0;
};

// Planes of up to three spatial axes; missing ones come first, with one element. An output element is a sum of input elements with
// weights that are products of one weight for each axis. `transposed`: the gradient, in which the weights lead back.
struct ResampleProblem {
  std::int64_t planes = 1;
  std::array<ResampleAxis, 3> axes{};
  Interpolation mode = Interpolation::nearest;
  bool align_corners = false;
  bool transposed = false;
};

// Elements of x along an axis.
inline std::int64_t size_before(const ResampleProblem& p, std::size_t axis) {
  return p.transposed ? p.axes[axis].out : p.axes[axis].in;
}

// For resample: x (planes, in...) -> y (planes, out...), and the other way round if transposed. Both contiguous, of one dtype: f32 or
// f64, or any for the nearest modes that are not transposed.
using ResampleKernel = void(const KernelContext& context, const ResampleProblem& problem, const NDArray& x,
                            const NDArray& y);

}  // namespace heddle
