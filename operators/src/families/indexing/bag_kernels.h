// Kernel types of embedding_bag.
#pragma once

#include <cstdint>

#include <heddle/embedding.h>
#include <heddle/kernel_context.h>
#include <heddle/row_sparse.h>

namespace heddle {

// The bags that indices form, and what is made of their rows. Errors name `op`, a literal.
struct BagProblem {
  const char* op;
  BagMode mode;
  std::int64_t bags;
  std::int64_t length = 0;  // indices of each bag, if offsets are undefined
  NDArray offsets;          // integers (bags) of any strides
  std::int64_t padding;     // the index that counts for nothing; -1: none
};

// Common to all: indices are integers of any strides. sample_weights are undefined, or contiguous and of the dtype of the rows.

// For embedding_bag. weight and y (bags, d...) are contiguous, of one floating dtype. places, which may be undefined, gets for max the
// row of each element of y, i64, and -1 where there is none.
using EmbeddingBagKernel = void(const KernelContext& context, const BagProblem& problem,
                                const NDArray& weight, const NDArray& indices, const NDArray& sample_weights,
                                const NDArray& y, const NDArray& places);

// For embedding_bag_gradient: adds the gradient of weight to `whole`. gradient (bags, d...) and whole are contiguous, f32 or f64.
using EmbeddingBagGradientKernel = void(const KernelContext& context, const BagProblem& problem,
                                        const NDArray& gradient, const NDArray& indices,
                                        const NDArray& sample_weights, const NDArray& places,
                                        const NDArray& whole);

// For embedding_bag_rows: the gradient of weight, row-sparse, for sum and mean. y has room for all indices.
using EmbeddingBagRowsKernel = void(const KernelContext& context, const BagProblem& problem,
                                    const NDArray& gradient, const NDArray& indices,
                                    const NDArray& sample_weights, const RowSparse& y);

}  // namespace heddle
