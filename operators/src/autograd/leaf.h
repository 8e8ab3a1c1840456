// Adds gradients of a backward pass to the gradient of a leaf.
#pragma once

#include <heddle/ndarray.h>
#include <heddle/row_sparse.h>

#include "autograd/tape.h"

namespace heddle::operators_detail {

// Adds a gradient to that of the leaf. With `shared` something else refers to the gradient's memory, so the
// gradient is copied.
void accumulate_in_leaf(AutogradMeta& leaf, const NDArray& gradient, bool shared);
// Adds a gradient that stays on the tape, so that the gradient has gradients itself.
void give_recorded(AutogradMeta& leaf, const NDArray& gradient);
void accumulate_rows_in_leaf(AutogradMeta& leaf, const RowSparse& gradient);
// Adds the row-sparse gradient of the leaf to its dense one; called with the mutex of the leaf locked.
void add_sparse_part(AutogradMeta& leaf);

}  // namespace heddle::operators_detail
