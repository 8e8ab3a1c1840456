#include <heddle/elementwise.h>
#include <heddle/layers/activations.h>
#include <heddle/number_text.h>
#include <heddle/shape_ops.h>

#include "layers/layer_table.h"

namespace heddle {

using namespace nn_detail;

NDArray Relu::forward(const NDArray& x) {
  check_defined(*this, x);
  return relu(x);
}
NDArray Tanh::forward(const NDArray& x) {
  check_defined(*this, x);
  return tanh(x);
}
NDArray Sigmoid::forward(const NDArray& x) {
  check_defined(*this, x);
  return sigmoid(x);
}

NDArray Flatten::forward(const NDArray& x) {
  check_defined(*this, x);
  if (x.ndim() < 2) refuse_input(*this, x, "(batch, ...)");
  return flatten(x);
}

#define HEDDLE_ACTIVATION_LAYER(name, layer, ...) \
  NDArray layer::forward(const NDArray& x) {      \
    check_defined(*this, x);                      \
    return name(x);                               \
  }
#define HEDDLE_ACTIVATION_LAYER_WITH_NUMBER(name, layer, number, ...)                              \
  std::string layer::to_string() const { return #layer "(" + number_text(number##_) + ")"; } \
  NDArray layer::forward(const NDArray& x) {                                                       \
    check_defined(*this, x);                                                                       \
    return name(x, number##_);                                                                     \
  }
HEDDLE_ACTIVATIONS(HEDDLE_ACTIVATION_LAYER)
HEDDLE_ACTIVATIONS_WITH_NUMBER(HEDDLE_ACTIVATION_LAYER_WITH_NUMBER)

#define HEDDLE_ACTIVATION_LAYER_ENTRY(name, layer_class, formula, derivative, numpy, text) \
  table.add(#layer_class, text, {}, [](const LayerArguments&) { return layer(layer_class()); });
#define HEDDLE_ACTIVATION_LAYER_ENTRY_WITH_NUMBER(function, layer_class, number, otherwise, formula, derivative, numpy, text) \
  table.add(#layer_class, text, {{.name = #number, .kind = ArgumentKind::real, .default_value = otherwise}},             \
            [](const LayerArguments& a) { return layer(layer_class(a.real(#number))); });

HEDDLE_LAYERS(activation) {
  table.family("Layers without weights");
  table.add("Relu", "max(x, 0)", {}, [](const LayerArguments&) { return layer(Relu()); });
  table.add("Tanh", "tanh(x)", {}, [](const LayerArguments&) { return layer(Tanh()); });
  table.add("Sigmoid", "1 / (1 + exp(-x))", {}, [](const LayerArguments&) { return layer(Sigmoid()); });
  table.add("Flatten", "(batch, a, b, ...) -> (batch, a * b * ...)", {},
            [](const LayerArguments&) { return layer(Flatten()); });
  HEDDLE_ACTIVATIONS(HEDDLE_ACTIVATION_LAYER_ENTRY)
  HEDDLE_ACTIVATIONS_WITH_NUMBER(HEDDLE_ACTIVATION_LAYER_ENTRY_WITH_NUMBER)
}

}  // namespace heddle
