// The gradients of operators, and of NDArray's members, that rearrange, select or convert elements.
#pragma once

#include <heddle/autograd.h>
#include <heddle/ndarray.h>

namespace heddle::operators_detail {

// Each function records on the tape that `op` has just made `y` from `x`, if recording is on and x needs a gradient.

// y has x's elements in their row-major order, perhaps in another shape, floating dtype or on another device.
void record_elements(const char* op, NDArray& y, const NDArray& x);

// Axis i of y is axis axes[i] of x; negative ones count from the end.
void record_permuted(const char* op, NDArray& y, const NDArray& x, const Dims& axes);

void record_broadcast(const char* op, NDArray& y, const NDArray& x);

// y is x.slice(axis, range), perhaps without that axis if its size is 1.
void record_slice(const char* op, NDArray& y, const NDArray& x, int axis, Slice range);

// y is any view of x's storage. Elements of y that are not elements of x count as constants. Throws Error if elements
// of x share memory: the gradient of such an element cannot be told from the other's.
void record_view(const char* op, NDArray& y, const NDArray& x);

// whole[indices[i]] += gradient[i] along an axis; repeated indices add up. whole is contiguous. See take.cc.
void add_taken(const NDArray& gradient, const NDArray& indices, const NDArray& whole, int axis);

}  // namespace heddle::operators_detail
