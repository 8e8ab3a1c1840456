// Matrix products.
#pragma once

#include <heddle/ndarray.h>

namespace heddle {

// NumPy's matmul: (m, k) x (k, n) -> (m, n); a 1-d `a` is a row and a 1-d `b` a column whose axis of 1 is dropped from
// the result; leading axes are batches and broadcast. dtypes are promoted; for bool, products are "and" and sums "or";
// integers wrap around. Transposed views are read in place, other strided views are copied first. Differentiable.
NDArray matmul(const NDArray& a, const NDArray& b, Where where = Where::current());

struct LinearOptions {
  bool relu = false;  // true: max(0, .) of the result, in the same op
};

// x (..., in) times the transpose of weight (out, in), plus bias (out) if it is defined: (..., out). All of one
// floating dtype. Differentiable; gradients that no input needs are not computed.
NDArray linear(const NDArray& x, const NDArray& weight, const NDArray& bias = {}, LinearOptions options = {},
               Where where = Where::current());

}  // namespace heddle
