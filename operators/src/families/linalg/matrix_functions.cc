// Functions of a whole matrix: powers, the exponential, rank and norms.
#include <array>
#include <bit>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <heddle/elementwise.h>
#include <heddle/elementwise_math.h>
#include <heddle/linalg.h>
#include <heddle/matmul.h>
#include <heddle/rearrange.h>
#include <heddle/reduce.h>
#include <heddle/shape_ops.h>
#include <heddle/statistics.h>

#include "autograd/record.h"
#include "core/operator_table.h"
#include "families/elementwise/elementwise_gradient.h"
#include "families/linalg/linalg.h"

namespace heddle {

using namespace operators_detail;

namespace {

constexpr double kUnbounded = std::numeric_limits<double>::infinity();
constexpr std::array<const char*, 8> kNorms = {"fro", "nuc", "1", "-1", "2", "-2", "inf", "-inf"};

// The derivative of expm at x^T in the direction g: a block of the exponential of [[x^T, g], [0, x^T]]. It is
// linear in g, so g is scaled to a size that does not affect how the exponential is computed.
NDArray expm_gradient(const NDArray& g, const NDArray& x) {
  const std::int64_t n = rows_of(x);
  if (n == 0) return zeros_like(x);
  const NDArray largest = max(abs(g.detach()), {-2, -1}, true);
  const NDArray size = where(isfinite(largest) && largest > 0, largest, 1);
  const double share = 1.0 / static_cast<double>(std::bit_ceil(static_cast<std::uint64_t>(n)));
  const NDArray back = transposed(x), nothing = zeros_like(x), direction = g / size * share;
  const NDArray blocks = concat({concat({back, direction}, -1), concat({nothing, back}, -1)}, -2);
  return slice(slice(expm(blocks), -1, {.begin = n}), -2, {.end = n}) * (size / share);
}

// The largest or smallest of the numbers along the last axis of sizes, for each matrix of x. The largest of
// no numbers is 0, as for a norm.
NDArray extreme_of(const char* op, const NDArray& x, const NDArray& sizes, bool smallest) {
  const bool none = sizes.shape()[sizes.ndim() - 1] == 0;
  if (none && smallest)
    throw InvalidArgument(std::string(op) + ": nothing to choose from in shape " + x.shape().to_string());
  return smallest ? min(sizes, {-1}) : none ? sum(sizes, {-1}) : max(sizes, {-1});
}

NDArray norm_of(const char* op, const NDArray& x, const std::string& ord) {
  if (ord == "fro") return norm(x, 2, {-2, -1});
  if (ord == "nuc") return sum(singular_values(op, x), {-1});
  const bool smallest = ord.starts_with('-');
  if (ord == "2" || ord == "-2") return extreme_of(op, x, singular_values(op, x), smallest);
  if (ord == "1" || ord == "-1") return extreme_of(op, x, sum(abs(x), {-2}), smallest);
  if (ord == "inf" || ord == "-inf") return extreme_of(op, x, sum(abs(x), {-1}), smallest);
  std::string wanted;
  for (const char* word : kNorms) wanted += std::string(wanted.empty() ? "'" : ", '") + word + "'";
  throw InvalidArgument(std::string(op) + ": the norm is '" + ord + "'; wanted one of " + wanted);
}

// The largest singular value over the smallest, or the inverse of that ratio; infinity for a matrix of zeros.
NDArray ratio_of_values(const NDArray& x, bool inverted) {
  const NDArray s = singular_values("cond", x), largest = max(s, {-1}), least = min(s, {-1});
  const NDArray nothing = largest == 0, some = where(nothing, 1, largest);
  return where(nothing, kUnbounded, inverted ? least / some : some / least);
}

// The condition number from the inverse. For a singular matrix it is infinite, or NaN if the norm of x is
// NaN. The kernel's values for singular matrices must not reach norm_of(): a norm of singular values would
// throw for the whole batch.
NDArray condition_by_inverse(const NDArray& x, const std::string& p) {
  const NDArray inverted = inverse({.op = "cond", .kernel = "inv", .flag = true}, x);
  const NDArray singular = any(!isfinite(inverted), {-2, -1});
  const NDArray regular = where(with_ones(singular, 2), 0, inverted), size = norm_of("cond", x, p);
  return where(singular, size + kUnbounded, size * norm_of("cond", regular, p));
}

}  // namespace

NDArray matrix_power(const NDArray& given, std::int64_t n, Where at) {
  const CallSite site(at);
  const NDArray floating = square_matrices("matrix_power", given);
  if (is_half(floating.dtype())) return cast(matrix_power(wide(floating), n), floating.dtype());
  if (n == 0) {
    NDArray y = copy(broadcast_to(identity_like(given), given.shape()));
    record_constant("matrix_power", y, given);
    return y;
  }
  NDArray square = n < 0 ? inverse({.op = "matrix_power", .kernel = "inv"}, floating) : given, result;
  for (std::uint64_t rest = n < 0 ? -static_cast<std::uint64_t>(n) : static_cast<std::uint64_t>(n);;) {
    if (rest & 1) result = result.defined() ? matmul(result, square) : square;
    rest >>= 1;
    if (rest == 0) break;
    square = matmul(square, square);
  }
  return n == 1 ? copy(result) : result;
}

NDArray expm(const NDArray& given, Where at) {
  const CallSite site(at);
  const NDArray x = square_matrices("expm", given);
  if (is_half(x.dtype())) return cast(expm(wide(x)), x.dtype());
  NDArray y = push_linalg({.op = "expm", .kernel = "expm"}, {x}, {x.shape()})[0];
  if (recording({&x})) {
    const NDArray of_x = save_for_backward(x);
    record_op("expm", y, {x}, {of_x},
              [of_x](const NDArray& g) { return std::vector{expm_gradient(g, of_x)}; });
  }
  return y;
}

NDArray matrix_rank(const NDArray& given, std::optional<double> rtol, Where at) {
  const CallSite site(at);
  const NDArray x = matrices("matrix_rank", given).detach();
  const double share = relative_tolerance("matrix_rank", rtol, x, x.dtype());
  const NDArray s = singular_values("matrix_rank", wide(x));
  return sum(s > slice(s, -1, {.end = 1}) * share, {-1});
}

NDArray matrix_norm(const NDArray& given, const std::string& ord, bool keepdims, Where at) {
  const CallSite site(at);
  const NDArray x = matrices("matrix_norm", given);
  if (is_half(x.dtype())) return cast(matrix_norm(wide(x), ord, keepdims), x.dtype());
  const NDArray y = ndarray_detail::in_name_of("matrix_norm", [&] { return norm_of("matrix_norm", x, ord); });
  return keepdims ? with_ones(y, 2) : y;
}

NDArray vector_norm(const NDArray& x, double ord, Dims axes, bool keepdims, Where at) {
  const CallSite site(at);
  return ndarray_detail::in_name_of("vector_norm", [&] { return norm(x, ord, axes, keepdims); });
}

NDArray cond(const NDArray& given, const std::string& p, Where at) {
  const CallSite site(at);
  const bool by_values = p == "2" || p == "-2";
  const NDArray x = by_values ? matrices("cond", given) : square_matrices("cond", given);
  if (rows_of(x) == 0 || columns_of(x) == 0)
    throw InvalidArgument("cond: shape " + x.shape().to_string() + "; wanted matrices with elements");
  if (is_half(x.dtype())) return cast(cond(wide(x), p), x.dtype());
  return ndarray_detail::in_name_of(
      "cond", [&] { return by_values ? ratio_of_values(x, p == "-2") : condition_by_inverse(x, p); });
}

HEDDLE_OPERATORS(matrix_functions) {
  table.family("Linear algebra");
  const char* of_x = "that of x; f64 for integers and bool";
  const Argument keepdims = {"keepdims", false};
  table.add("matrix_power", matrix_power,
            {"x multiplied with itself n times; for a negative n the inverse, in floating point.",
             {"x", "n"},
             "that of x",
             kDifferentiable});
  table.add("expm", expm,
            {"The exponential of a matrix: the sum of x^k / k!.", {"x"}, of_x, kDifferentiable});
  table.add("matrix_rank", matrix_rank,
            {"The number of singular values above rtol times the largest; None is max(m, n) * epsilon.",
             {"x", {"rtol", kNone}},
             "i64"});
  table.add(
      "matrix_norm", matrix_norm,
      {"'fro': from the squares; 'nuc', '2', '-2': the sum, largest, smallest of the singular values; '1', "
       "'-1', 'inf', '-inf': the largest, smallest sum of sizes in a column, in a row.",
       {"x", {"ord", "fro", kNorms}, keepdims},
       of_x,
       kDifferentiable});
  table.add("vector_norm", vector_norm,
            {"(sum |x|^ord)^(1/ord) along `axis`, an axis or several; None: all.",
             {"x", {"ord", 2.0}, {"axis", kNone}, keepdims},
             of_x,
             kDifferentiable});
  table.add("cond", cond,
            {"The norm of a matrix times that of its inverse; from the singular values for '2' and '-2'.",
             {"x", {"p", "2", kNorms}},
             of_x,
             kDifferentiable});
}

}  // namespace heddle
