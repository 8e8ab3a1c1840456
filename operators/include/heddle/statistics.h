// More operators that reduce axes: products, spread, norms, truth, and those that leave NaN out.
//
// Axes, keepdims and errors are those of reduce.h; none given means all axes. "In floating point" means f64 for an integer
// or bool x, else x's dtype.
#pragma once

#include <heddle/ndarray.h>

namespace heddle {

// i64 for integers and bool, else x's dtype. Of nothing: 1.
NDArray prod(const NDArray& x, Dims axes = {}, bool keepdims = false, Where where = Where::current());

// In floating point: the mean square distance from the mean, over n - correction for n elements; and its square root.
NDArray var(const NDArray& x, Dims axes = {}, double correction = 0, bool keepdims = false,
            Where where = Where::current());
NDArray stddev(const NDArray& x, Dims axes = {}, double correction = 0, bool keepdims = false,
               Where where = Where::current());

// In floating point: log(sum(exp(x))), without overflow. Of nothing: -infinity.
NDArray logsumexp(const NDArray& x, Dims axes = {}, bool keepdims = false, Where where = Where::current());

// In floating point: (sum |x|^p)^(1/p), as the norm of a vector; of a matrix with p = 2 the Frobenius norm. p = infinity
// gives the largest |x|, -infinity the smallest, 0 the number of elements that are not 0.
NDArray norm(const NDArray& x, double p = 2, Dims axes = {}, bool keepdims = false,
             Where where = Where::current());

// bool: whether any element, and whether every element, is not 0. Of nothing: false, and true.
NDArray any(const NDArray& x, Dims axes = {}, bool keepdims = false, Where where = Where::current());
NDArray all(const NDArray& x, Dims axes = {}, bool keepdims = false, Where where = Where::current());
// i64.
NDArray count_nonzero(const NDArray& x, Dims axes = {}, bool keepdims = false,
                      Where where = Where::current());

// sum, mean, max and min of the elements that are not NaN. Where all are: 0, and NaN for the others.
NDArray nansum(const NDArray& x, Dims axes = {}, bool keepdims = false, Where where = Where::current());
NDArray nanmean(const NDArray& x, Dims axes = {}, bool keepdims = false, Where where = Where::current());
NDArray nanmax(const NDArray& x, Dims axes = {}, bool keepdims = false, Where where = Where::current());
NDArray nanmin(const NDArray& x, Dims axes = {}, bool keepdims = false, Where where = Where::current());

}  // namespace heddle
