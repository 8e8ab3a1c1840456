// Products of 8-bit integers, for networks in inference (Jacob et al., CVPR'18). An f32 number r of the input counts as the u8 number
// q = round(r / input_scale) + input_zero_point, limited to 0 .. 255; halves are rounded to even, and NaN counts as 0. Weights are i8
// with one scale for each output. Sums of products are exact integers of 32 bits.
#pragma once

#include <cstdint>

#include <heddle/conv.h>
#include <heddle/matmul.h>
#include <heddle/ndarray.h>

namespace heddle {

// Sums of so many products of u8 and i8 fit into 32 bits.
inline constexpr std::int64_t kMostByteProducts = 65536;

// What the products of 8-bit integers take beside the input, on its device.
struct QuantizedWeights {
  NDArray weight;            // i8 (out, in), or (O, C / groups, kernel...)
  NDArray weight_scale;      // f32 (out): weight times scale is the number meant
  NDArray input_scale;       // f32 (1), above 0
  NDArray input_zero_point;  // i32 (1): the u8 number that stands for 0
  NDArray bias{};            // f32 (out), or undefined
};

// x (..., in) of any floating dtype -> f32 (..., out), as linear(). At most 65536 inputs. No gradient.
NDArray quantized_linear(const NDArray& x, const QuantizedWeights& weights, LinearOptions options = {},
                         Where where = Where::current());

// Convolutions with 8-bit weights; shapes and options are those of conv1d, conv2d and conv3d. x has any floating dtype, the result is f32.
// Throws InvalidArgument if a result has more than 65536 products. No gradient.
NDArray quantized_conv1d(const NDArray& x, const QuantizedWeights& weights, const ConvOptions& options = {},
                         Where where = Where::current());
NDArray quantized_conv2d(const NDArray& x, const QuantizedWeights& weights, const ConvOptions& options = {},
                         Where where = Where::current());
NDArray quantized_conv3d(const NDArray& x, const QuantizedWeights& weights, const ConvOptions& options = {},
                         Where where = Where::current());

}  // namespace heddle
