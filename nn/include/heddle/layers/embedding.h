// The layers that look rows up.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <heddle/embedding.h>
#include <heddle/layer.h>
#include <heddle/random.h>

namespace heddle {

struct EmbeddingLayerOptions {
  double stddev = 1;         // standard deviation of the initial values, which are normal around 0
  bool sparse_grad = false;  // the weight's gradient is row_sparse_grad(weight), see embedding.h
  std::optional<std::int64_t> padding_index =
      {};  // a row that begins at 0 and gets no gradient; negative: from the end
  Device device{};
};

// Indices (integers) -> rows of the weight: indices' shape + (features). Parameter: weight (rows, features).
class Embedding : public Layer {
 public:
  explicit Embedding(const LayerCall& call);
  Embedding(std::int64_t rows, std::int64_t features, EmbeddingLayerOptions options = {},
            Generator& generator = default_generator(), Where where = Where::current());

 private:
  NDArray compute(const NDArray& indices) override;
};

struct EmbeddingBagLayerOptions {
  BagMode mode = BagMode::mean;
  double stddev = 1;
  bool sparse_grad = false;
  std::optional<std::int64_t> padding_index =
      {};  // an index that is left out of its bag; its row begins at 0
  Device device{};
};

// Indices (bags, length) -> the sum, mean or maximum of the rows of each bag: (bags, features), as embedding_bag. run({indices, offsets,
// per_sample_weights}) takes what that function does; either may be undefined. Parameter: weight (rows, features).
class EmbeddingBag : public Layer {
 public:
  explicit EmbeddingBag(const LayerCall& call);
  EmbeddingBag(std::int64_t rows, std::int64_t features, EmbeddingBagLayerOptions options = {},
               Generator& generator = default_generator(), Where where = Where::current());

 private:
  std::vector<NDArray> compute_all(std::span<const NDArray> inputs) override;
};

}  // namespace heddle
