// Two-dimensional convolution (cross-correlation, as every deep learning library has it).
#pragma once

#include <array>
#include <cstdint>

#include <heddle/ndarray.h>

namespace heddle {

struct Conv2dOptions {
  std::array<std::int64_t, 2> stride{1, 1};    // strides along height and width
  std::array<std::int64_t, 2> padding{0, 0};   // zeros added on each side, along height and width
  std::array<std::int64_t, 2> dilation{1, 1};  // distance between the kernel's elements
  std::int64_t groups = 1;                     // number of independent parts of the channels
  bool relu = false;                           // true: max(0, .) of the result, in the same op
};

// x (N, C, H, W), weight (O, C / groups, kh, kw), bias (O) or undefined -> (N, O, OH, OW), where
// OH = (H + 2 padding - dilation (kh - 1) - 1) / stride + 1. All arrays have one floating dtype.
// Differentiable: one op computes the gradient of x, another one those of weight and bias; an op is pushed
// only if a gradient that it computes is needed.
NDArray conv2d(const NDArray& x, const NDArray& weight, const NDArray& bias = {},
               const Conv2dOptions& options = {}, Where where = Where::current());

struct Conv1dOptions {
  std::int64_t stride = 1, padding = 0, dilation = 1, groups = 1;
  bool relu = false;
};

// x (N, C, L), weight (O, C / groups, k), bias (O) or undefined -> (N, O, OL), as conv2d of one row.
NDArray conv1d(const NDArray& x, const NDArray& weight, const NDArray& bias = {},
               const Conv1dOptions& options = {}, Where where = Where::current());

struct ConvTranspose2dOptions {
  std::array<std::int64_t, 2> stride{1, 1};
  std::array<std::int64_t, 2> padding{0, 0};         // rows and columns cut off on both sides
  std::array<std::int64_t, 2> output_padding{0, 0};  // added at the end, less than the stride or the dilation
  std::array<std::int64_t, 2> dilation{1, 1};
  std::int64_t groups = 1;
};

// The transpose of conv2d, also called deconvolution (Zeiler et al., CVPR'10): x (N, C, H, W), weight (C, O / groups, kh, kw), bias (O)
// or undefined -> (N, O, OH, OW) with OH = (H - 1) stride - 2 padding + dilation (kh - 1) + output_padding + 1.
NDArray conv_transpose2d(const NDArray& x, const NDArray& weight, const NDArray& bias = {},
                         const ConvTranspose2dOptions& options = {}, Where where = Where::current());

}  // namespace heddle
