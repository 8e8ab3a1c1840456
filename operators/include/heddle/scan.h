// Operators along one axis, whose element i depends on the elements before it. The axis may be negative; out
// of range throws InvalidArgument at the call. Sums of f32 are made in f64.
#pragma once

#include <heddle/ndarray.h>

namespace heddle {

// Element i is the sum, or the product, of the elements up to i. The dtype is i64 for integers and bool, else
// x's.
NDArray cumsum(const NDArray& x, int axis = -1, Where where = Where::current());
NDArray cumprod(const NDArray& x, int axis = -1, Where where = Where::current());

// Element i is the largest, or smallest, of the elements up to i; NaN if any is NaN. The dtype is x's. The
// last such element gets the gradient.
NDArray cummax(const NDArray& x, int axis = -1, Where where = Where::current());
NDArray cummin(const NDArray& x, int axis = -1, Where where = Where::current());

// Takes differences of adjacent elements, n times in succession; the axis gets n shorter, down to 0. Throws
// for bool.
NDArray diff(const NDArray& x, std::int64_t n = 1, int axis = -1, Where where = Where::current());

}  // namespace heddle
