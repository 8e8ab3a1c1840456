// The layer that looks rows up.
#pragma once

#include <cstdint>

#include <heddle/layer.h>
#include <heddle/random.h>

namespace heddle {

struct EmbeddingLayerOptions {
  double stddev = 1;         // standard deviation of the initial values, which are normal around 0
  bool sparse_grad = false;  // the weight's gradient is row_sparse_grad(weight), see embedding.h
  Device device{};
};

// Indices (integers) -> rows of the weight: indices' shape + (features). Parameter: weight (rows, features).
class Embedding : public Layer {
 public:
  using Layer::Layer;
  Embedding(std::int64_t rows, std::int64_t features, EmbeddingLayerOptions options = {},
            Generator& generator = default_generator(), Where where = Where::current());

 private:
  NDArray compute(const NDArray& indices) override;
};

}  // namespace heddle
