// Layers without parameters that compute element by element or change the shape.
#pragma once

#include <heddle/activations.h>
#include <heddle/elementwise.h>
#include <heddle/layer.h>

namespace heddle {

// A layer for each activation: Relu, Tanh, Sigmoid, and those of heddle/activations.h, which says what they compute: Gelu, GeluTanh,
// Silu, Mish, Selu, Softsign, LogSigmoid, Relu6, HardTanh, HardSigmoid, HardSwish and TanhShrink. These have a number, as in
// LeakyRelu(0.2): LeakyRelu, Elu, Celu, Softplus, HardShrink, SoftShrink.
#define HEDDLE_DECLARE_ACTIVATION_LAYER(name, layer, ...) \
  class layer : public Layer {                            \
   public:                                                \
    using Layer::Layer;                                   \
    layer();                                              \
                                                          \
   private:                                               \
    NDArray compute(const NDArray& x) override;           \
  };
#define HEDDLE_DECLARE_ACTIVATION_LAYER_WITH_NUMBER(name, layer, number, otherwise, ...) \
  class layer : public Layer {                                                           \
   public:                                                                               \
    using Layer::Layer;                                                                  \
    explicit layer(double number = otherwise);                                           \
                                                                                         \
   private:                                                                              \
    NDArray compute(const NDArray& x) override;                                          \
  };
HEDDLE_DECLARE_ACTIVATION_LAYER(relu, Relu)
HEDDLE_DECLARE_ACTIVATION_LAYER(tanh, Tanh)
HEDDLE_DECLARE_ACTIVATION_LAYER(sigmoid, Sigmoid)
HEDDLE_ACTIVATIONS(HEDDLE_DECLARE_ACTIVATION_LAYER)
HEDDLE_ACTIVATIONS_WITH_NUMBER(HEDDLE_DECLARE_ACTIVATION_LAYER_WITH_NUMBER)
#undef HEDDLE_DECLARE_ACTIVATION_LAYER
#undef HEDDLE_DECLARE_ACTIVATION_LAYER_WITH_NUMBER

// (batch, a, b, ...) -> (batch, a * b * ...)
class Flatten : public Layer {
 public:
  using Layer::Layer;
  Flatten();

 private:
  NDArray compute(const NDArray& x) override;
};

}  // namespace heddle
