// Two-dimensional convolution (cross-correlation, as every deep learning library has it).
#pragma once

#include <array>
#include <cstdint>

#include <heddle/ndarray.h>

namespace heddle {

struct Conv2dOptions {
  std::array<std::int64_t, 2> stride{1, 1};    // strides along height and width
  std::array<std::int64_t, 2> padding{0, 0};   // zeros added on both sides
  std::array<std::int64_t, 2> dilation{1, 1};  // distance between the kernel's taps
  std::int64_t groups = 1;  // channels in and out are split into this many independent parts
  bool relu = false;        // true: max(0, .) of the result, in the same op
};

// x (N, C, H, W), weight (O, C / groups, kh, kw), bias (O) or undefined -> (N, O, OH, OW) with
// OH = (H + 2 padding - dilation (kh - 1) - 1) / stride + 1. All of one floating dtype. Differentiable: the gradient
// of x is one op, that of weight and bias another; an op whose gradients no input needs is not pushed.
NDArray conv2d(const NDArray& x, const NDArray& weight, const NDArray& bias = {},
               const Conv2dOptions& options = {}, Where where = Where::current());

}  // namespace heddle
