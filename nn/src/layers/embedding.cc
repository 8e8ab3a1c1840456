#include <cmath>

#include <heddle/embedding.h>
#include <heddle/layers/embedding.h>
#include <heddle/number_text.h>

#include "layers/layer_table.h"

namespace heddle {

using namespace nn_detail;

Embedding::Embedding(std::int64_t rows, std::int64_t features, EmbeddingLayerOptions options,
                     Generator& generator, Where where)
    : sparse_grad_(options.sparse_grad) {
  const CallSite site(where);
  check_positive("Embedding", "rows", rows);
  check_positive("Embedding", "features", features);
  if (!(options.stddev >= 0 && std::isfinite(options.stddev)))
    throw InvalidArgument("Embedding: stddev must be finite and not negative, not " +
                          number_text(options.stddev));
  weight_ =
      parameter("weight", generator.normal({rows, features}, 0, options.stddev, DType::f32, options.device));
}

NDArray Embedding::forward(const NDArray& indices) {
  check_defined(*this, indices);
  if (is_floating(indices.dtype()) || indices.dtype() == DType::boolean)
    refuse_input(*this, indices, "integers");
  return embedding(weight_, indices, {.sparse_grad = sparse_grad_});
}

std::string Embedding::to_string() const {
  return "Embedding(" + std::to_string(weight_.shape()[0]) + ", " + std::to_string(weight_.shape()[1]) +
         (sparse_grad_ ? ", sparse gradient)" : ")");
}

HEDDLE_LAYERS(embedding) {
  table.family("Layers with weights");
  table.add(
      "Embedding", "Indices -> rows of the weight.",
      {size_argument("rows"),
       size_argument("features"),
       {.name = "stddev", .kind = ArgumentKind::real, .default_value = 1.0},
       switch_argument("sparse_grad", false),
       device_argument(),
       generator_argument()},
      [](const LayerArguments& a) {
        const EmbeddingLayerOptions options{.stddev = a.real("stddev"),
                                            .sparse_grad = a.boolean("sparse_grad"),
                                            .device = a.device("device")};
        return layer(Embedding(a.integer("rows"), a.integer("features"), options, a.generator("generator")));
      });
}

}  // namespace heddle
