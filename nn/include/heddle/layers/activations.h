// Layers without parameters that compute element by element or change the shape.
#pragma once

#include <string>

#include <heddle/activations.h>
#include <heddle/module.h>
#include <heddle/ndarray.h>

namespace heddle {

// max(x, 0) of each element.
class Relu : public Module {
  NDArray forward(const NDArray& x) override;
};
// tanh(x) of each element.
class Tanh : public Module {
  NDArray forward(const NDArray& x) override;
};
// 1 / (1 + exp(-x)) of each element.
class Sigmoid : public Module {
  NDArray forward(const NDArray& x) override;
};

// (batch, a, b, ...) -> (batch, a * b * ...)
class Flatten : public Module {
  NDArray forward(const NDArray& x) override;
};

// The layers of heddle/activations.h: Gelu, GeluTanh, Silu, Mish, Selu, Softsign, LogSigmoid, Relu6, HardTanh, HardSigmoid,
// HardSwish and TanhShrink; and with a number, as in LeakyRelu(0.2): LeakyRelu, Elu, Celu, Softplus, HardShrink, SoftShrink.
#define HEDDLE_DECLARE_ACTIVATION_LAYER(name, layer, ...) \
  class layer : public Module {                           \
    NDArray forward(const NDArray& x) override;           \
  };
#define HEDDLE_DECLARE_ACTIVATION_LAYER_WITH_NUMBER(name, layer, number, otherwise, ...) \
  class layer : public Module {                                                          \
   public:                                                                               \
    explicit layer(double number = otherwise) : number##_(number) {}                     \
    std::string to_string() const override;                                              \
                                                                                         \
   private:                                                                              \
    NDArray forward(const NDArray& x) override;                                          \
    double number##_;                                                                    \
  };
HEDDLE_ACTIVATIONS(HEDDLE_DECLARE_ACTIVATION_LAYER)
HEDDLE_ACTIVATIONS_WITH_NUMBER(HEDDLE_DECLARE_ACTIVATION_LAYER_WITH_NUMBER)
#undef HEDDLE_DECLARE_ACTIVATION_LAYER
#undef HEDDLE_DECLARE_ACTIVATION_LAYER_WITH_NUMBER

}  // namespace heddle
