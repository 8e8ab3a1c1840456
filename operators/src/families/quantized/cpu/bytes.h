// What the kernels of products of 8-bit integers share: how f32 numbers become bytes, and sums become f32 numbers.
#pragma once

#include <cstdint>

#include "families/quantized/bytes_functors.h"
#include "families/quantized/kernels.h"

namespace heddle::cpu_kernels {

// Whether this machine, and DNNL_MAX_CPU_ISA, have instructions that add products of u8 and i8 in 32 bits. Older ones add pairs of
// products in 16 bits, which overflow.
bool has_exact_byte_products();

// The scale of the input, read when the op runs.
struct InputBytes : functors::ByteScale {
  explicit InputBytes(const QuantizedWeights& weights)
      : ByteScale(*weights.input_scale.data<const float>(),
                  *weights.input_zero_point.data<const std::int32_t>()) {}
  void convert(const float* from, std::int64_t count, std::uint8_t* to) const {
    for (std::int64_t i = 0; i < count; ++i) to[i] = (*this)(from[i]);
  }
};

// The f32 result of an output's sum of products.
inline float result_of(std::int32_t sum, float factor, float bias, bool relu) {
  const float y = static_cast<float>(sum) * factor + bias;
  return relu && y < 0 ? 0.0f : y;
}

// The sum of products of bytes and weights.
inline std::int32_t byte_products(const std::uint8_t* x, const std::int8_t* weight, std::int64_t count) {
  std::int32_t sum = 0;
  for (std::int64_t i = 0; i < count; ++i)
    sum += static_cast<std::int32_t>(x[i]) * static_cast<std::int32_t>(weight[i]);
  return sum;
}

// sum - correction, where both may be beyond what the difference is.
inline std::int32_t corrected(std::int32_t sum, std::int32_t correction) {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(sum) - static_cast<std::uint32_t>(correction));
}

// zero_point times the sum of the weights of each output: what the zero point adds to the sums.
inline void zero_point_sums(const std::int8_t* weight, std::int64_t outputs, std::int64_t count,
                            std::int32_t zero_point, std::int32_t* to) {
  for (std::int64_t o = 0; o < outputs; ++o) {
    std::int32_t sum = 0;
    for (std::int64_t i = 0; i < count; ++i) sum += weight[o * count + i];
    to[o] = sum * zero_point;
  }
}

}  // namespace heddle::cpu_kernels
