// Look-up of rows of a table by their indices.
#pragma once

#include <heddle/ndarray.h>

namespace heddle {

struct EmbeddingOptions {
  // true: the gradient of weight is row-sparse, read by row_sparse_grad(weight) instead of grad(weight).
  // weight must be a leaf then.
  bool sparse_grad = false;
};

// weight (n, d...), indices (integers of any shape) -> indices' shape + (d...). An index below 0 or above n -
// 1 is an op error. The gradients of equal indices are added up in the order of the indices.
NDArray embedding(const NDArray& weight, const NDArray& indices, EmbeddingOptions options = {},
                  Where where = Where::current());

}  // namespace heddle
