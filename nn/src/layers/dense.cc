#include <heddle/layers/dense.h>
#include <heddle/matmul.h>

#include "layers/layer_table.h"

namespace heddle {

using namespace nn_detail;

Dense::Dense(std::int64_t in, std::int64_t out, DenseOptions options, Generator& generator, Where where)
    : Layer(call_of("Dense",
                    {inferred_value(in), out, options.bias, options.relu, init_value(options.init),
                     options.device, &generator},
                    where)) {}

NDArray Dense::compute(const NDArray& x) {
  return linear(x, array("weight"), array("bias"), {.relu = boolean("relu")});
}

Dense nn_detail::make_dense(const LayerCall& call, std::int64_t in, std::int64_t out) {
  return Dense(call_of(
      "Dense",
      {in, out, call.value("bias"), false, call.value("init"), call.value("device"), call.value("generator")},
      call.where));
}

HEDDLE_LAYERS(dense) {
  table.family("Layers with weights");
  table.add<Dense>({.name = "Dense",
                    .documentation = "x @ weight.T + bias.",
                    .arguments = {inferred_size("in_features"), size_argument("out_features"),
                                  switch_argument("bias", true), switch_argument("relu", false),
                                  init_argument(), device_argument(), generator_argument()},
                    .arrays = {weight_array("weight", "(out_features, in_features)"),
                               zeros_array("bias", "(out_features)", "bias")},
                    .input = "(batch..., in_features)",
                    .output = "(batch..., out_features)"});
}

}  // namespace heddle
