#include <cmath>

#include <heddle/embedding.h>
#include <heddle/layers/embedding.h>
#include <heddle/number_text.h>

#include "layers/layer_table.h"

namespace heddle {

using namespace nn_detail;

Embedding::Embedding(std::int64_t rows, std::int64_t features, EmbeddingLayerOptions options,
                     Generator& generator, Where where)
    : Layer(call_of("Embedding",
                    {rows, features, options.stddev, options.sparse_grad, options.device, &generator},
                    where)) {}

NDArray Embedding::compute(const NDArray& indices) {
  if (is_floating(indices.dtype()) || indices.dtype() == DType::boolean) refuse_input(indices, "integers");
  return embedding(array("weight"), indices, {.sparse_grad = boolean("sparse_grad")});
}

HEDDLE_LAYERS(embedding) {
  table.family("Layers with weights");
  table.add<Embedding>(
      {.name = "Embedding",
       .documentation = "Indices -> rows of the weight.",
       .arguments = {size_argument("rows"), size_argument("features"), real_argument("stddev", 1.0),
                     switch_argument("sparse_grad", false), device_argument(), generator_argument()},
       .arrays = {normal_array("weight", "(rows, features)")},
       .input = "(indices...)",
       .output = "(indices..., features)"});
}

}  // namespace heddle
