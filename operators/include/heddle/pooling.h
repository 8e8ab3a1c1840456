// Two-dimensional pooling.
#pragma once

#include <array>
#include <cstdint>

#include <heddle/ndarray.h>

namespace heddle {

struct Pool2dOptions {
  std::array<std::int64_t, 2> kernel{2, 2};   // size along height and width
  std::array<std::int64_t, 2> stride{0, 0};   // steps along height and width; {0, 0}: the kernel's size
  std::array<std::int64_t, 2> padding{0, 0};  // added on each side; at most half the kernel's size
  bool count_include_pad = true;  // avg_pool2d only: padding counts in the divisor, as is PyTorch's default
};

// x (N, C, H, W), floating -> (N, C, OH, OW) with OH = (H + 2 padding - kernel) / stride + 1. Each result is
// the maximum of a window's elements, without the padding; NaN if an element is NaN. The gradient goes to the
// first maximum in row-major order.
NDArray max_pool2d(const NDArray& x, const Pool2dOptions& options = {}, Where where = Where::current());

// The mean of each window. Shapes as for max_pool2d.
NDArray avg_pool2d(const NDArray& x, const Pool2dOptions& options = {}, Where where = Where::current());

}  // namespace heddle
