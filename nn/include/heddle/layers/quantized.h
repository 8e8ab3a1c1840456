// Layers whose products are of 8-bit integers, for inference: what quantize() makes of Dense and Conv. Buffers: weight (i8), weight_scale
// (f32, one for each output), bias (f32), input_scale (f32) and input_zero_point (i32) of one element each. Nothing is trained, and
// nothing has a gradient. New ones have weights of 0 and scales of 1.
#pragma once

#include <cstdint>

#include <heddle/conv.h>
#include <heddle/layer.h>

namespace heddle {

struct QuantizedOptions {
  bool bias = true, relu = false;
  Device device{};
};

// x (..., in) -> f32 (..., out), by quantized_linear. weight (out, in).
class QuantizedDense : public Layer {
 public:
  using Layer::Layer;
  QuantizedDense(std::int64_t in, std::int64_t out, const QuantizedOptions& options = {},
                 Where where = Where::current());

 private:
  NDArray compute(const NDArray& x) override;
};

struct QuantizedConvLayerOptions {
  Dims stride = 1;
  Padding padding = 0;
  Dims dilation = 1;
  std::int64_t groups = 1;
  bool bias = true, relu = false;
  Device device{};
};

// x (batch, in, sizes...) -> f32 (batch, out, sizes'...), by quantized_conv1d to quantized_conv3d. weight (out, in / groups, kernel...).
template <int axes> class QuantizedConv : public Layer {
 public:
  explicit QuantizedConv(const LayerCall& call);
  QuantizedConv(std::int64_t in, std::int64_t out, const Dims& kernel,
                const QuantizedConvLayerOptions& options = {}, Where where = Where::current());

 private:
  NDArray compute(const NDArray& x) override;
};
extern template class QuantizedConv<1>;
extern template class QuantizedConv<2>;
extern template class QuantizedConv<3>;
using QuantizedConv1d = QuantizedConv<1>;
using QuantizedConv2d = QuantizedConv<2>;
using QuantizedConv3d = QuantizedConv<3>;

}  // namespace heddle
