// Softmax and losses based on it. Floating dtypes; all differentiable.
#pragma once

#include <heddle/ndarray.h>

namespace heddle {

// exp(x) / sum(exp(x)) along an axis, without overflow; log_softmax: its logarithm. The shape is x's.
NDArray softmax(const NDArray& x, int axis = -1, Where where = Where::current());
NDArray log_softmax(const NDArray& x, int axis = -1, Where where = Where::current());

// Mean over rows of -log(softmax(logits)[label]): logits (..., C) floating, labels (...) integers -> a scalar. A
// label outside 0 .. C-1 fails the op with an InvalidArgument that names it. NaN without rows.
NDArray cross_entropy(const NDArray& logits, const NDArray& labels, Where where = Where::current());

}  // namespace heddle
