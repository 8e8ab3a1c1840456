// More operators that reduce axes: products, spread, norms, truth, and those that ignore NaN.
//
// Axes, keepdims and errors are those of reduce.h; empty axes mean all. "In floating point" means f64 for an
// integer or bool x, else x's dtype.
#pragma once

#include <heddle/ndarray.h>

namespace heddle {

// The dtype is i64 for integers and bool, else x's. The product of no elements is 1.
NDArray prod(const NDArray& x, Dims axes = {}, bool keepdims = false, Where where = Where::current());

// In floating point. var: the sum of squared distances from the mean, divided by n - correction for n
// elements. stddev: the square root of var.
NDArray var(const NDArray& x, Dims axes = {}, double correction = 0, bool keepdims = false,
            Where where = Where::current());
NDArray stddev(const NDArray& x, Dims axes = {}, double correction = 0, bool keepdims = false,
               Where where = Where::current());

// In floating point: log(sum(exp(x))), without overflow. For no elements it is -infinity.
NDArray logsumexp(const NDArray& x, Dims axes = {}, bool keepdims = false, Where where = Where::current());

// In floating point: (sum |x|^p)^(1/p), the norm of a vector; for a matrix and p = 2 the Frobenius norm. p =
// infinity gives the largest |x|, -infinity the smallest, 0 the number of nonzero elements.
NDArray norm(const NDArray& x, double p = 2, Dims axes = {}, bool keepdims = false,
             Where where = Where::current());

// Whether any element, and whether every element, is nonzero, as bool. For no elements: false, and true.
NDArray any(const NDArray& x, Dims axes = {}, bool keepdims = false, Where where = Where::current());
NDArray all(const NDArray& x, Dims axes = {}, bool keepdims = false, Where where = Where::current());
// Whether |a - b| <= atol + rtol * |b| for every element, in f64. An infinity is close to itself alone, NaN to NaN with
// equal_nan. a and b broadcast. The call waits for the values.
bool allclose(const NDArray& a, const NDArray& b, double rtol = 1e-5, double atol = 1e-8,
              bool equal_nan = false, Where where = Where::current());
// The number of elements that are not 0, as i64.
NDArray count_nonzero(const NDArray& x, Dims axes = {}, bool keepdims = false,
                      Where where = Where::current());

// sum, mean, max and min of the elements that are not NaN. If all are NaN: nansum is 0; nanmean, nanmax and
// nanmin are NaN.
NDArray nansum(const NDArray& x, Dims axes = {}, bool keepdims = false, Where where = Where::current());
NDArray nanmean(const NDArray& x, Dims axes = {}, bool keepdims = false, Where where = Where::current());
NDArray nanmax(const NDArray& x, Dims axes = {}, bool keepdims = false, Where where = Where::current());
NDArray nanmin(const NDArray& x, Dims axes = {}, bool keepdims = false, Where where = Where::current());

}  // namespace heddle
