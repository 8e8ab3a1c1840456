#include <heddle/layers/dense.h>
#include <heddle/matmul.h>

#include "layers/layer_table.h"

namespace heddle {

using namespace nn_detail;

Dense::Dense(std::int64_t in, std::int64_t out, DenseOptions options, Generator& generator, Where where)
    : in_(in), out_(out), relu_(options.relu) {
  const CallSite site(where);
  check_positive("Dense", "in_features", in);
  check_positive("Dense", "out_features", out);
  weight_ = parameter("weight", init_weight({out, in}, options.init, generator, options.device));
  if (options.bias) bias_ = parameter("bias", zero_bias(out, options.device));
}

NDArray Dense::forward(const NDArray& x) {
  check_defined(*this, x);
  if (x.ndim() != 2 || x.shape()[1] != in_) refuse_input(*this, x, "(batch, " + std::to_string(in_) + ")");
  return linear(x, weight_, bias_, {.relu = relu_});
}

std::string Dense::to_string() const {
  return "Dense(" + std::to_string(in_) + ", " + std::to_string(out_) + (relu_ ? ", relu)" : ")");
}

HEDDLE_LAYERS(dense) {
  table.family("Layers with weights");
  table.add("Dense", "x (batch, in) -> x @ weight.T + bias (batch, out).",
            {size_argument("in_features"), size_argument("out_features"), switch_argument("bias", true),
             switch_argument("relu", false), init_argument(), device_argument(), generator_argument()},
            [](const LayerArguments& a) {
              const DenseOptions options{.bias = a.boolean("bias"),
                                         .relu = a.boolean("relu"),
                                         .init = a.init("init"),
                                         .device = a.device("device")};
              return layer(Dense(a.integer("in_features"), a.integer("out_features"), options,
                                 a.generator("generator")));
            });
}

}  // namespace heddle
