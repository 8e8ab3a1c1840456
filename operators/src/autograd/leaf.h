// Adds gradients of a backward pass to the gradient of a leaf.
#pragma once

#include <heddle/ndarray.h>
#include <heddle/row_sparse.h>

#include "autograd/tape.h"

namespace heddle::operators_detail {

// `shared`: something else refers to the gradient's memory, so the gradient is copied.
void accumulate_in_leaf(AutogradMeta& leaf, const NDArray& gradient, bool shared);
// Adds a gradient that stays on the tape, so that it has gradients itself.
void give_recorded(AutogradMeta& leaf, const NDArray& gradient);
void accumulate_rows_in_leaf(AutogradMeta& leaf, const RowSparse& gradient);
// Makes a row-sparse gradient dense; called with the leaf's mutex locked.
void add_sparse_part(AutogradMeta& leaf);

}  // namespace heddle::operators_detail
