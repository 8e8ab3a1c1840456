// Helpers of linear algebra: checks, shapes, and the op that runs a kernel.
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

// The shape of x without its last two axes, followed by `tail`.
Shape batch_shape(const NDArray& x, std::initializer_list<std::int64_t> tail = {});
std::int64_t rows_of(const NDArray& x);
std::int64_t columns_of(const NDArray& x);

// A view of x with the last two axes swapped.
NDArray transposed(const NDArray& x);
// x (...) as (..., 1) or (..., 1, 1): appends `axes` axes of size 1.
NDArray with_ones(const NDArray& x, int axes);
// x (..., n) as a view (..., 1, n) or (..., n, 1).
NDArray as_row(const NDArray& x);
NDArray as_column(const NDArray& x);

// Pushes an op named `op` that runs `kernel`. The results have these shapes and the dtype of in[0]. The
// arguments have one dtype; they are detached and made contiguous.
struct LinalgOp {
  const char *op, *kernel;
  bool flag = false;
  double number = 0;
  const char* in_errors = nullptr;  // errors begin with this literal; null: with `op`
};
std::vector<NDArray> push_linalg(const LinalgOp& op, const std::vector<NDArray>& in,
                                 const std::vector<Shape>& shapes);

// The identity matrix of x's last axis, with the dtype, device and engine of x.
NDArray identity_like(const NDArray& x);

// The singular value decomposition {U, S, V^T} of x, with U (m, k) and V^T (k, n), outside the tape.
std::vector<NDArray> thin_svd(const char* op, const NDArray& x);

// inverse() is inv() with the op `op`, which runs the kernel "inv"; with `flag` a singular matrix gives NaN
// instead of an error. singular_values() is svdvals() in the name of `op`. x is f32 or f64; both functions
// record themselves on the tape.
NDArray inverse(const LinalgOp& op, const NDArray& x);
NDArray singular_values(const char* op, const NDArray& x);

// The share of the largest singular value up to which others count as 0: rtol, or max(m, n) * epsilon of
// `dtype`, the dtype of the elements before they were widened.
double relative_tolerance(const char* op, const std::optional<double>& rtol, const NDArray& x, DType dtype);

}  // namespace heddle::operators_detail
