// What the operators of linear algebra share: checks, shapes, and ops of their kernels.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "core/operator.h"
#include "families/linalg/kernels.h"

namespace heddle::operators_detail {

// x as a floating array of at least two axes; f64 for integers and bool. Throws InvalidArgument in the name of `op`.
NDArray matrices(const char* op, const NDArray& x);
NDArray square_matrices(const char* op, const NDArray& x);

// The shape of x without its last two axes, and `tail` behind it.
Shape batch_shape(const NDArray& x, std::initializer_list<std::int64_t> tail = {});
std::int64_t rows_of(const NDArray& x);
std::int64_t columns_of(const NDArray& x);

// A view, with the last two axes exchanged.
NDArray transposed(const NDArray& x);
// a (..., 1) or (..., 1, 1): as many axes of size 1 behind.
NDArray with_ones(const NDArray& x, int axes);
// x (..., n) as (..., 1, n) or (..., n, 1).
NDArray as_row(const NDArray& x);
NDArray as_column(const NDArray& x);

// Pushes the kernel `kernel` in an op named `op`: results of these shapes, with the dtype of in[0], from arrays of one dtype,
// which are detached and made contiguous.
struct LinalgOp {
  const char *op, *kernel;
  bool flag = false;
  double number = 0;
  const char* in_errors = nullptr;  // what errors begin with, a literal; `op` without it
};
std::vector<NDArray> push_linalg(const LinalgOp& op, const std::vector<NDArray>& in,
                                 const std::vector<Shape>& shapes);

// The identity matrix of x's last axis, with the dtype, device and engine of x.
NDArray identity_like(const NDArray& x);

// {U, S, V^T}, with U (m, k) and V^T (k, n), outside the tape.
std::vector<NDArray> thin_svd(const char* op, const NDArray& x);

// inv() by an op that its caller names, with the kernel "inv", whose flag makes NaN of a singular matrix instead of an error; and
// svdvals() in the name of `op`. x is f32 or f64; both are on the tape.
NDArray inverse(const LinalgOp& op, const NDArray& x);
NDArray singular_values(const char* op, const NDArray& x);

// The share of the largest singular value below which one counts as 0: given, or max(m, n) * epsilon of `dtype`, that of the
// elements before they were made wider.
double relative_tolerance(const char* op, const std::optional<double>& rtol, const NDArray& x, DType dtype);

}  // namespace heddle::operators_detail
