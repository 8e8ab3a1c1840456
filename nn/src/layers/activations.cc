#include <heddle/elementwise.h>
#include <heddle/layers/activations.h>
#include <heddle/shape_ops.h>

#include "layers/layer_table.h"

namespace heddle {

using namespace nn_detail;

// What becomes of the rows of heddle/activations.h.
#define HEDDLE_ACTIVATION_LAYER(name, layer, ...)                     \
  layer::layer() : Layer(call_of(#layer, {}, CallSite::current())) {} \
  NDArray layer::compute(const NDArray& x) { return name(x); }
#define HEDDLE_ACTIVATION_LAYER_WITH_NUMBER(name, layer, number, ...)                    \
  layer::layer(double number) : Layer(call_of(#layer, {number}, CallSite::current())) {} \
  NDArray layer::compute(const NDArray& x) { return name(x, real(#number)); }

HEDDLE_ACTIVATION_LAYER(relu, Relu)
HEDDLE_ACTIVATION_LAYER(tanh, Tanh)
HEDDLE_ACTIVATION_LAYER(sigmoid, Sigmoid)
HEDDLE_ACTIVATIONS(HEDDLE_ACTIVATION_LAYER)
HEDDLE_ACTIVATIONS_WITH_NUMBER(HEDDLE_ACTIVATION_LAYER_WITH_NUMBER)

Flatten::Flatten() : Layer(call_of("Flatten", {}, CallSite::current())) {}
NDArray Flatten::compute(const NDArray& x) { return flatten(x); }

#define HEDDLE_ACTIVATION_LAYER_ENTRY(function, layer, formula, derivative, numpy, text) \
  table.add<layer>({.name = #layer, .documentation = text});
#define HEDDLE_ACTIVATION_LAYER_ENTRY_WITH_NUMBER(function, layer, number, otherwise, formula, derivative, \
                                                  numpy, text)                                             \
  table.add<layer>({.name = #layer, .documentation = text, .arguments = {real_argument(#number, otherwise)}});

HEDDLE_LAYERS(activation) {
  table.family("Activations");
  table.add<Relu>({.name = "Relu", .documentation = "max(x, 0)."});
  table.add<Tanh>({.name = "Tanh", .documentation = "The hyperbolic tangent."});
  table.add<Sigmoid>({.name = "Sigmoid", .documentation = "1 / (1 + exp(-x))."});
  HEDDLE_ACTIVATIONS(HEDDLE_ACTIVATION_LAYER_ENTRY)
  HEDDLE_ACTIVATIONS_WITH_NUMBER(HEDDLE_ACTIVATION_LAYER_ENTRY_WITH_NUMBER)
  table.family("Layers without weights");
  table.add<Flatten>({.name = "Flatten",
                      .documentation = "Makes a row of each element of the batch.",
                      .input = "(batch, size, ...)",
                      .output = "(batch, size * ...)"});
}

}  // namespace heddle
