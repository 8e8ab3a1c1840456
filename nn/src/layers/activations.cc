#include <heddle/elementwise.h>
#include <heddle/layers/activations.h>
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

HEDDLE_LAYERS(activation) {
  table.family("Layers without weights");
  table.add("Relu", "max(x, 0)", {}, [](const LayerArguments&) { return layer(Relu()); });
  table.add("Tanh", "tanh(x)", {}, [](const LayerArguments&) { return layer(Tanh()); });
  table.add("Sigmoid", "1 / (1 + exp(-x))", {}, [](const LayerArguments&) { return layer(Sigmoid()); });
  table.add("Flatten", "(batch, a, b, ...) -> (batch, a * b * ...)", {},
            [](const LayerArguments&) { return layer(Flatten()); });
}

}  // namespace heddle
