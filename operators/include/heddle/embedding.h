// Look-up of rows of a table by their indices.
#pragma once

#include <cstdint>
#include <optional>

#include <heddle/ndarray.h>

namespace heddle {

struct EmbeddingOptions {
  // true: the gradient of weight is row-sparse, read by row_sparse_grad(weight) instead of grad(weight).
  // weight must be a leaf then.
  bool sparse_grad = false;
  std::optional<std::int64_t> padding_index =
      {};  // a row that gets no gradient; negative ones count from the end
};

// weight (n, d...), indices (integers of any shape) -> indices' shape + (d...). An index below 0 or above n -
// 1 is an op error. The gradients of equal indices are added up in the order of the indices.
NDArray embedding(const NDArray& weight, const NDArray& indices, EmbeddingOptions options = {},
                  Where where = Where::current());

enum class BagMode : std::uint8_t { sum, mean, max };

struct EmbeddingBagOptions {
  BagMode mode = BagMode::mean;
  NDArray per_sample_weights =
      {};  // factors of the rows, of the shape of indices and weight's dtype, for BagMode::sum
  bool sparse_grad = false;  // as in EmbeddingOptions; not for BagMode::max
  std::optional<std::int64_t> padding_index =
      {};  // an index that is left out of its bag; negative: from the end
};

// Sums, means or maxima of bags of rows: weight (n, d...), indices (bags, length), or all indices in one axis and offsets (bags), the
// position at which each bag begins -> (bags, d...). A bag without an index gives 0. An index out of range, and offsets that do not
// begin with 0 or that fall, are op errors. Weight and per_sample_weights have gradients. Rows are added in the order of the indices.
NDArray embedding_bag(const NDArray& weight, const NDArray& indices, const NDArray& offsets = {},
                      const EmbeddingBagOptions& options = {}, Where where = Where::current());

}  // namespace heddle
