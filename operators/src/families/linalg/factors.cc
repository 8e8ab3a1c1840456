// Operators that factor matrices: lu, qr, svd, eigh.
#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include <heddle/elementwise.h>
#include <heddle/linalg.h>
#include <heddle/matmul.h>
#include <heddle/rearrange.h>
#include <heddle/shape_ops.h>

#include "autograd/record.h"
#include "core/operator_table.h"
#include "families/linalg/linalg.h"

namespace heddle {

using namespace operators_detail;

namespace {

using Arrays = std::vector<NDArray>;

Arrays cast_all(const Arrays& arrays, DType dtype) {
  Arrays result;
  for (const NDArray& x : arrays) result.push_back(cast(x, dtype));
  return result;
}

// The factors that gradients use, as constants. Only a gradient that is itself differentiated factors the
// input again, on the tape.
Arrays constants(const Arrays& factors) {
  Arrays kept;
  for (const NDArray& x : factors) kept.push_back(save_for_backward(x.detach()));
  return kept;
}

Arrays with_input(const NDArray& x, Arrays kept) {
  kept.push_back(x);
  return kept;
}

// The matrix x_ij / (b_j - b_i), with 0 on the diagonal.
NDArray over_differences(const NDArray& x, const NDArray& b) {
  const NDArray diagonal = not_equal(identity_like(x), 0);
  return where(diagonal, 0, x / where(diagonal, 1, as_row(b) - as_column(b)));
}

// The gradient of x from the gradients of Q and R with x = Q R, for x with at least as many rows as columns;
// of_q or of_r may be undefined.
NDArray tall_qr_gradient(const NDArray& of_q, const NDArray& of_r, const NDArray& q, const NDArray& r) {
  NDArray m;
  if (of_r.defined()) m = matmul(r, transposed(of_r));
  if (of_q.defined()) {
    const NDArray part = matmul(transposed(of_q), q);
    m = m.defined() ? m - part : negative(part);
  }
  const NDArray symmetric = tril(m) + transposed(tril(m, -1));
  NDArray y = matmul(q, symmetric);
  if (of_q.defined()) y = y + of_q;
  return transposed(solve_triangular(r, transposed(y)));
}

// As tall_qr_gradient() for any x. An x with more columns than rows is [x1 x2] = Q [r1 r2], with a square x1.
NDArray qr_gradient(const NDArray& of_q, const NDArray& of_r, const NDArray& x, const Arrays& parts) {
  const NDArray &q = parts[0], &r = parts[1];
  const std::int64_t m = rows_of(x), n = columns_of(x);
  if (m >= n) return tall_qr_gradient(of_q, of_r, q, r);
  const NDArray r1 = slice(r, -1, {.end = m}), x2 = slice(x, -1, {.begin = m});
  if (!of_r.defined()) {
    const NDArray rest = make_result(x, x2.shape(), x.dtype());
    rest.fill(0);
    return concat({tall_qr_gradient(of_q, {}, q, r1), rest}, -1);
  }
  const NDArray of_r1 = slice(of_r, -1, {.end = m}), of_r2 = slice(of_r, -1, {.begin = m});
  return concat({tall_qr_gradient(matmul(x2, transposed(of_r2)), of_r1, q, r1), matmul(q, of_r2)}, -1);
}

// The next three functions return the gradient of x = U diag(S) V^T that follows from the gradient g of U, of
// V^T, or of S. parts = {U, S, V^T}.
NDArray left_vectors_gradient(const NDArray& g, const Arrays& parts) {
  const NDArray &u = parts[0], &s = parts[1], &vt = parts[2];
  const NDArray part = matmul(transposed(u), g);
  NDArray y = matmul(u, over_differences(part - transposed(part), square(s)) * as_row(s));
  if (rows_of(u) > columns_of(u)) y = y + (g - matmul(u, part)) / as_row(s);
  return matmul(y, vt);
}

NDArray right_vectors_gradient(const NDArray& g, const Arrays& parts) {
  const NDArray &u = parts[0], &s = parts[1], &vt = parts[2];
  const NDArray part = matmul(vt, transposed(g));
  NDArray y = matmul(as_column(s) * over_differences(part - transposed(part), square(s)), vt);
  if (columns_of(vt) > rows_of(vt)) y = y + (g - matmul(transposed(part), vt)) / as_column(s);
  return matmul(u, y);
}

NDArray singular_values_gradient(const NDArray& g, const Arrays& parts) {
  return matmul(parts[0] * as_row(g), parts[2]);
}

bool reads_upper(const char* op, const std::string& uplo) {
  if (uplo == "L" || uplo == "U") return uplo == "U";
  throw InvalidArgument(std::string(op) + ": uplo is '" + uplo + "'; wanted 'L' or 'U'");
}

Arrays eigenvectors(const char* op, const NDArray& x, bool upper) {
  return push_linalg({.op = op, .kernel = "eigh", .flag = upper}, {x},
                     {batch_shape(x, {columns_of(x)}), x.shape()});
}

// The next two functions return the gradient of x that follows from the gradient g of its eigenvalues, or of
// its eigenvectors. parts = {values, vectors}.
NDArray eigenvalues_gradient(const NDArray& g, const Arrays& parts) {
  return matmul(parts[1] * as_row(g), transposed(parts[1]));
}

NDArray eigenvectors_gradient(const NDArray& g, const Arrays& parts) {
  const NDArray &w = parts[0], &v = parts[1];
  const NDArray inner = over_differences(matmul(transposed(v), g), w);
  const NDArray whole = matmul(matmul(v, inner), transposed(v));
  return (whole + transposed(whole)) / 2;
}

}  // namespace

std::vector<NDArray> lu(const NDArray& given, Where at) {
  const CallSite site(at);
  const NDArray x = matrices("lu", given).detach();
  if (is_half(x.dtype())) return cast_all(lu(wide(x)), x.dtype());
  const std::int64_t m = rows_of(x), n = columns_of(x), k = std::min(m, n);
  return push_linalg({.op = "lu", .kernel = "lu"}, {x},
                     {batch_shape(x, {m, m}), batch_shape(x, {m, k}), batch_shape(x, {k, n})});
}

std::vector<NDArray> qr(const NDArray& given, const std::string& mode, Where at) {
  const CallSite site(at);
  const NDArray x = matrices("qr", given);
  if (mode != "reduced" && mode != "complete")
    throw InvalidArgument("qr: mode is '" + mode + "'; wanted 'reduced' or 'complete'");
  if (is_half(x.dtype())) return cast_all(qr(wide(x), mode), x.dtype());
  const std::int64_t m = rows_of(x), n = columns_of(x), k = mode == "complete" ? m : std::min(m, n);
  if (k > n && recording({&x})) {
    throw InvalidArgument("qr: mode 'complete' has no gradient for shape " + x.shape().to_string() +
                          ", with more rows than columns; wanted 'reduced' or a detached x");
  }
  Arrays y = push_linalg({.op = "qr", .kernel = "qr"}, {x}, {batch_shape(x, {m, k}), batch_shape(x, {k, n})});
  if (recording({&x})) {
    const NDArray of_x = save_for_backward(x);
    const Arrays saved = constants(y);
    const auto parts = [=] { return differentiating_gradient() ? qr(of_x, mode) : saved; };
    record_op("qr", y[0], {x}, with_input(of_x, saved),
              [=](const NDArray& g) { return Arrays{qr_gradient(g, {}, of_x, parts())}; });
    record_op("qr", y[1], {x}, with_input(of_x, saved),
              [=](const NDArray& g) { return Arrays{qr_gradient({}, g, of_x, parts())}; });
  }
  return y;
}

std::vector<NDArray> svd(const NDArray& given, bool full_matrices, Where at) {
  const CallSite site(at);
  const NDArray x = matrices("svd", given);
  if (is_half(x.dtype())) return cast_all(svd(wide(x), full_matrices), x.dtype());
  const std::int64_t m = rows_of(x), n = columns_of(x), k = std::min(m, n);
  if (full_matrices && m != n) {
    if (recording({&x})) {
      throw InvalidArgument("svd: full_matrices has no gradient for shape " + x.shape().to_string() +
                            "; wanted square matrices, full_matrices = false or a detached x");
    }
    return push_linalg({.op = "svd", .kernel = "svd", .flag = true}, {x},
                       {batch_shape(x, {m, m}), batch_shape(x, {k}), batch_shape(x, {n, n})});
  }
  Arrays y = thin_svd("svd", x);
  if (recording({&x})) {
    const NDArray of_x = save_for_backward(x);
    const Arrays saved = constants(y);
    const auto parts = [=] { return differentiating_gradient() ? svd(of_x, false) : saved; };
    record_op("svd", y[0], {x}, with_input(of_x, saved),
              [=](const NDArray& g) { return Arrays{left_vectors_gradient(g, parts())}; });
    record_op("svd", y[1], {x}, with_input(of_x, saved),
              [=](const NDArray& g) { return Arrays{singular_values_gradient(g, parts())}; });
    record_op("svd", y[2], {x}, with_input(of_x, saved),
              [=](const NDArray& g) { return Arrays{right_vectors_gradient(g, parts())}; });
  }
  return y;
}

NDArray svdvals(const NDArray& given, Where at) {
  const CallSite site(at);
  const NDArray x = matrices("svdvals", given);
  if (is_half(x.dtype())) return cast(svdvals(wide(x)), x.dtype());
  return singular_values("svdvals", x);
}

NDArray operators_detail::singular_values(const char* op, const NDArray& x) {
  if (!recording({&x})) {
    const Shape shape = batch_shape(x, {std::min(rows_of(x), columns_of(x))});
    return push_linalg({.op = op, .kernel = "svd"}, {x}, {shape})[0];
  }
  Arrays y = thin_svd(op, x);
  const NDArray of_x = save_for_backward(x);
  const Arrays saved = constants(y);
  record_op(op, y[1], {x}, with_input(of_x, saved), [=](const NDArray& g) {
    return Arrays{singular_values_gradient(g, differentiating_gradient() ? svd(of_x, false) : saved)};
  });
  return y[1];
}

std::vector<NDArray> eigh(const NDArray& given, const std::string& uplo, Where at) {
  const CallSite site(at);
  const NDArray x = square_matrices("eigh", given);
  const bool upper = reads_upper("eigh", uplo);
  if (is_half(x.dtype())) return cast_all(eigh(wide(x), uplo), x.dtype());
  Arrays y = eigenvectors("eigh", x, upper);
  if (recording({&x})) {
    const NDArray of_x = save_for_backward(x);
    const Arrays saved = constants(y);
    const auto parts = [=] { return differentiating_gradient() ? eigh(of_x, uplo) : saved; };
    record_op("eigh", y[0], {x}, with_input(of_x, saved),
              [=](const NDArray& g) { return Arrays{eigenvalues_gradient(g, parts())}; });
    record_op("eigh", y[1], {x}, with_input(of_x, saved),
              [=](const NDArray& g) { return Arrays{eigenvectors_gradient(g, parts())}; });
  }
  return y;
}

NDArray eigvalsh(const NDArray& given, const std::string& uplo, Where at) {
  const CallSite site(at);
  const NDArray x = square_matrices("eigvalsh", given);
  const bool upper = reads_upper("eigvalsh", uplo);
  if (is_half(x.dtype())) return cast(eigvalsh(wide(x), uplo), x.dtype());
  if (!recording({&x})) {
    return push_linalg({.op = "eigvalsh", .kernel = "eigh", .flag = upper}, {x},
                       {batch_shape(x, {columns_of(x)})})[0];
  }
  Arrays y = eigenvectors("eigvalsh", x, upper);
  const NDArray of_x = save_for_backward(x);
  const Arrays saved = constants(y);
  record_op("eigvalsh", y[0], {x}, with_input(of_x, saved), [=](const NDArray& g) {
    return Arrays{eigenvalues_gradient(g, differentiating_gradient() ? eigh(of_x, uplo) : saved)};
  });
  return y[0];
}

HEDDLE_OPERATORS(linalg_factors) {
  table.family("Linear algebra");
  static constexpr std::array<const char*, 2> kModes = {"reduced", "complete"}, kTriangles = {"L", "U"};
  const char* of_x = "that of x; f64 for integers and bool";
  const Argument mode = {"mode", "reduced", kModes}, uplo = {"uplo", "L", kTriangles};
  table.add("lu", lu,
            {"P, a permutation, L, lower triangular with ones on its diagonal, and U with x = P L U.",
             {"x"},
             of_x});
  table.add("qr", qr,
            {"Q and R, upper triangular, with x = Q R; Q (m, m) if mode is 'complete', else (m, min(m, n)).",
             {"x", mode},
             of_x,
             kDifferentiable});
  table.add("svd", svd,
            {"U, S, which falls, and V^T with x = U diag(S) V^T; U and V^T are square if full_matrices.",
             {"x", {"full_matrices", true}},
             of_x,
             kDifferentiable});
  table.add("svdvals", svdvals, {"The singular values, which fall.", {"x"}, of_x, kDifferentiable});
  table.add("eigh", eigh,
            {"The eigenvalues, which rise, and eigenvectors, as columns, of symmetric matrices, of which the "
             "triangle "
             "`uplo` is read.",
             {"x", uplo},
             of_x,
             kDifferentiable});
  table.add("eigvalsh", eigvalsh,
            {"The eigenvalues, which rise, of symmetric matrices, of which the triangle `uplo` is read.",
             {"x", uplo},
             of_x,
             kDifferentiable});
}

}  // namespace heddle
