// Linear algebra on matrices, the last two axes of an array; axes before them are batches, which broadcast
// between arguments.
//
// Computed in floating point: integers and bools as f64, f16 and bf16 as f32. The matrices of a batch are
// distributed over the workers. Shapes that do not fit throw InvalidArgument at the call. A matrix with
// unsuitable values, such as a singular one, is an op error, which names the function and the position of the
// matrix in the batch. Functions have a gradient unless noted, where they are smooth: not at equal singular
// or eigenvalues.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <heddle/ndarray.h>

namespace heddle {

// Solves a x = b for x: a is (..., n, n), b is (..., n, k), or (n) for one vector. A singular a is an op
// error.
NDArray solve(const NDArray& a, const NDArray& b, Where at = Where::current());
// Solves a x = b for a triangular a, of which only the upper or lower triangle is read. b is (..., n, k).
NDArray solve_triangular(const NDArray& a, const NDArray& b, bool upper = true, Where at = Where::current());
// The x with the least |a x - b|; of several such x the one with the least |x|. a is (..., m, n), b is (...,
// m, k), or (m) for one vector. Singular values up to rtol times the largest count as 0; rtol is max(m, n) *
// epsilon by default.
NDArray lstsq(const NDArray& a, const NDArray& b, std::optional<double> rtol = {},
              Where at = Where::current());

// The inverse; a singular matrix is an op error.
NDArray inv(const NDArray& x, Where at = Where::current());
// The pseudo-inverse, which always exists. rtol is that of lstsq().
NDArray pinv(const NDArray& x, std::optional<double> rtol = {}, Where at = Where::current());

// The determinant.
NDArray det(const NDArray& x, Where at = Where::current());
// {sign, log}: the determinant's sign (0: singular) and the logarithm of its absolute value; no gradient of the sign.
std::vector<NDArray> slogdet(const NDArray& x, Where at = Where::current());

// The lower triangular L with x = L L^T. Only the lower triangle of x is read; the gradient is symmetric. A
// matrix that is not positive definite is an op error.
NDArray cholesky(const NDArray& x, Where at = Where::current());

// {P, L, U} with x = P L U: P a permutation, L lower triangular with ones on its diagonal. No gradient.
std::vector<NDArray> lu(const NDArray& x, Where at = Where::current());

// {Q, R} with x = Q R for x (..., m, n). mode "reduced": Q (m, k), R (k, n) for k = min(m, n); "complete": Q (m, m), R (m, n),
// without a gradient if m > n.
std::vector<NDArray> qr(const NDArray& x, const std::string& mode = "reduced", Where at = Where::current());

// {U, S, V^T} with x = U diag(S) V^T, S descending. With full_matrices U is (m, m) and V^T (n, n), without a
// gradient unless m = n; else U is (m, k) and V^T (k, n) for k = min(m, n). svdvals() returns S alone.
std::vector<NDArray> svd(const NDArray& x, bool full_matrices = true, Where at = Where::current());
NDArray svdvals(const NDArray& x, Where at = Where::current());

// {values, vectors}: the eigenvalues in ascending order and the eigenvectors, as columns, of symmetric
// matrices, of which only the triangle uplo ("L" or "U") is read. The gradient is symmetric. eigvalsh()
// returns the values alone.
std::vector<NDArray> eigh(const NDArray& x, const std::string& uplo = "L", Where at = Where::current());
NDArray eigvalsh(const NDArray& x, const std::string& uplo = "L", Where at = Where::current());

// x to the power of n. For a negative n it is a power of the inverse of x.
NDArray matrix_power(const NDArray& x, std::int64_t n, Where at = Where::current());
// The matrix exponential: the sum of x^k / k!.
NDArray expm(const NDArray& x, Where at = Where::current());

// The number of singular values above rtol times the largest; i64, no gradient.
NDArray matrix_rank(const NDArray& x, std::optional<double> rtol = {}, Where at = Where::current());

// `ord` "fro": the root of the sum of squares; "nuc": the sum of the singular values; "2", "-2": the largest,
// smallest singular value; "1", "-1", "inf", "-inf": the largest, smallest sum of absolute values in a
// column, in a row.
NDArray matrix_norm(const NDArray& x, const std::string& ord = "fro", bool keepdims = false,
                    Where at = Where::current());
// The norm of vectors along the axes, as norm() of statistics.h computes it.
NDArray vector_norm(const NDArray& x, double ord = 2, Dims axes = {}, bool keepdims = false,
                    Where at = Where::current());
// The condition number: the norm of x times the norm of its inverse, with the norm that p names as in
// matrix_norm(). For "2" and "-2" it is a ratio of singular values, so that a singular matrix is no error.
NDArray cond(const NDArray& x, const std::string& p = "2", Where at = Where::current());

}  // namespace heddle
