// What a backward pass adds to the gradient that a leaf holds.
#pragma once

#include <heddle/ndarray.h>
#include <heddle/row_sparse.h>

#include "autograd/tape.h"

namespace heddle::operators_detail {

// Memory that something else refers to (`shared`) is copied.
void accumulate_in_leaf(AutogradMeta& leaf, const NDArray& gradient, bool shared);
// The gradient stays on the tape.
void give_recorded(AutogradMeta& leaf, const NDArray& gradient);
void accumulate_rows_in_leaf(AutogradMeta& leaf, const RowSparse& gradient);
// The gradient was row-sparse and is dense from now on; under the leaf's mutex.
void add_sparse_part(AutogradMeta& leaf);

}  // namespace heddle::operators_detail
