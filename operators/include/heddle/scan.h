// Operators along one axis, of which element i depends on those before it. The axis may be negative; out of range throws
// InvalidArgument at the call. Sums of f32 are made with f64 inside.
#pragma once

#include <heddle/ndarray.h>

namespace heddle {

// i64 for integers and bool, else x's dtype: element i is the sum, or the product, of the elements up to i.
NDArray cumsum(const NDArray& x, int axis = -1, Where where = Where::current());
NDArray cumprod(const NDArray& x, int axis = -1, Where where = Where::current());

// x's dtype: element i is the largest, or smallest, of the elements up to i; NaN if any is. The last such one gets the gradient.
NDArray cummax(const NDArray& x, int axis = -1, Where where = Where::current());
NDArray cummin(const NDArray& x, int axis = -1, Where where = Where::current());

// Differences of neighbours, n times; the axis is n shorter, down to 0. bool is refused.
NDArray diff(const NDArray& x, std::int64_t n = 1, int axis = -1, Where where = Where::current());

}  // namespace heddle
