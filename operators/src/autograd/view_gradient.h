// The gradients of what rearranges, selects or converts elements: of operators and of NDArray's members alike.
#pragma once

#include <heddle/ndarray.h>

namespace heddle::operators_detail {

// Each puts `y`, just made from `x` by `op`, on the tape, if it runs and x needs a gradient.

// y has x's elements in their row-major order, perhaps in another shape, floating dtype or on another device.
void record_elements(const char* op, NDArray& y, const NDArray& x);

// Axis i of y is axis axes[i] of x; negative ones count from the end.
void record_permuted(const char* op, NDArray& y, const NDArray& x, const Dims& axes);

void record_broadcast(const char* op, NDArray& y, const NDArray& x);

// y is x.slice(axis, range), perhaps without that axis if its size is 1.
void record_slice(const char* op, NDArray& y, const NDArray& x, int axis, Slice range);

// y is any view of x's storage. What it shows beside x's own elements is a constant. Throws Error if elements of x share
// memory: whose gradient would it be?
void record_view(const char* op, NDArray& y, const NDArray& x);

// whole[indices[i]] += gradient[i] along an axis; repeated indices add up. whole is contiguous. In indexing.cc.
void add_taken(const NDArray& gradient, const NDArray& indices, const NDArray& whole, int axis);

}  // namespace heddle::operators_detail
