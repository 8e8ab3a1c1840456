// Convolution along one, two or three axes (cross-correlation, as every deep learning library has it), and its transpose.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

#include <heddle/ndarray.h>

namespace heddle {

// Zeros around an array, as numbers or as a word. Numbers: added both before and after each axis; one number stands for all axes.
// "same": as many as keep the size, one more behind than before if their number is odd; strides have to be 1. "valid": none.
class Padding {
 public:
  Padding() = default;  // none
  template <ndarray_detail::Size T> Padding(T size) : sizes_(size) {}
  Padding(std::initializer_list<std::int64_t> sizes) : sizes_(sizes) {}
  Padding(const Dims& sizes) : sizes_(sizes) {}
  Padding(const char* word) : Padding(std::string(word)) {}
  Padding(const std::string& word);  // throws InvalidArgument for another word

  bool same() const { return same_; }
  const Dims& sizes() const { return sizes_; }  // without a meaning if same()

 private:
  Dims sizes_ = 0;
  bool same_ = false;
};

// Numbers along the axes, from the first to the last; one number stands for all.
struct ConvOptions {
  Dims stride = 1;
  Padding padding = 0;
  Dims dilation = 1;        // distance between the kernel's elements
  std::int64_t groups = 1;  // number of independent parts of the channels
  bool relu = false;        // true: max(0, .) of the result, in the same op
};
using Conv1dOptions = ConvOptions;
using Conv2dOptions = ConvOptions;
using Conv3dOptions = ConvOptions;

// x (N, C, L), weight (O, C / groups, k), bias (O) or undefined -> (N, O, OL), where OL = (L + padding before and after -
// dilation (k - 1) - 1) / stride + 1. All arrays have one floating dtype; f16 and bf16 are summed in f32.
// Differentiable: one op computes the gradient of x, another one those of weight and bias; an op is pushed
// only if a gradient that it computes is needed.
NDArray conv1d(const NDArray& x, const NDArray& weight, const NDArray& bias = {},
               const ConvOptions& options = {}, Where where = Where::current());
// As conv1d: x (N, C, H, W), weight (O, C / groups, kh, kw) -> (N, O, OH, OW).
NDArray conv2d(const NDArray& x, const NDArray& weight, const NDArray& bias = {},
               const ConvOptions& options = {}, Where where = Where::current());
// As conv1d: x (N, C, D, H, W), weight (O, C / groups, kd, kh, kw) -> (N, O, OD, OH, OW).
NDArray conv3d(const NDArray& x, const NDArray& weight, const NDArray& bias = {},
               const ConvOptions& options = {}, Where where = Where::current());

// Numbers along the axes; one number stands for all.
struct ConvTransposeOptions {
  Dims stride = 1;
  Dims padding = 0;         // elements cut off on both sides
  Dims output_padding = 0;  // added at the end, less than the stride or the dilation
  Dims dilation = 1;
  std::int64_t groups = 1;
};
using ConvTranspose1dOptions = ConvTransposeOptions;
using ConvTranspose2dOptions = ConvTransposeOptions;
using ConvTranspose3dOptions = ConvTransposeOptions;

// The transpose of conv1d, also called deconvolution (Zeiler et al., CVPR'10): x (N, C, L), weight (C, O / groups, k), bias (O) or
// undefined -> (N, O, OL) with OL = (L - 1) stride - 2 padding + dilation (k - 1) + output_padding + 1. Differentiable.
NDArray conv_transpose1d(const NDArray& x, const NDArray& weight, const NDArray& bias = {},
                         const ConvTransposeOptions& options = {}, Where where = Where::current());
// As conv_transpose1d: x (N, C, H, W), weight (C, O / groups, kh, kw).
NDArray conv_transpose2d(const NDArray& x, const NDArray& weight, const NDArray& bias = {},
                         const ConvTransposeOptions& options = {}, Where where = Where::current());
// As conv_transpose1d: x (N, C, D, H, W), weight (C, O / groups, kd, kh, kw).
NDArray conv_transpose3d(const NDArray& x, const NDArray& weight, const NDArray& bias = {},
                         const ConvTransposeOptions& options = {}, Where where = Where::current());

}  // namespace heddle
