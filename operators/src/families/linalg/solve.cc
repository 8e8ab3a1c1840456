// Operators for linear equations, inverses and determinants.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include <heddle/elementwise.h>
#include <heddle/linalg.h>
#include <heddle/matmul.h>
#include <heddle/rearrange.h>
#include <heddle/reduce.h>
#include <heddle/shape_ops.h>

#include "autograd/record.h"
#include "core/operator_table.h"
#include "families/elementwise/elementwise_gradient.h"
#include "families/linalg/linalg.h"

namespace heddle {

using namespace operators_detail;

namespace {

// The matrices of the equation a x = b, in the dtype to compute in and with one batch shape.
struct Sides {
  NDArray a, b;
  DType dtype;  // dtype of the result
  bool vector;  // whether b was one vector
};

Sides sides(const char* op, const NDArray& given_a, const NDArray& given_b, bool square) {
  check_arrays(op, {&given_a, &given_b});
  const NDArray a = square ? square_matrices(op, given_a) : matrices(op, given_a);
  DType dtype = promote(a.dtype(), given_b.dtype());
  const bool vector = given_b.ndim() == 1;
  NDArray b = vector ? expand_dims(given_b, 1) : given_b;
  if (b.ndim() < 2 || rows_of(b) != rows_of(a)) {
    throw InvalidArgument(std::string(op) + ": a has shape " + a.shape().to_string() + " and b " +
                          given_b.shape().to_string() + "; wanted (..., m, n) and (..., m, k), or (m)");
  }
  const DType wider = is_half(dtype) ? DType::f32 : dtype;
  const Shape batch = broadcast_for(op, batch_shape(a), batch_shape(b));
  Shape a_shape = batch, b_shape = batch;
  for (int axis : {2, 1}) {
    a_shape.push_back(a.shape()[a.ndim() - axis]);
    b_shape.push_back(b.shape()[b.ndim() - axis]);
  }
  return {broadcast_to(cast(a, wider), a_shape), broadcast_to(cast(b, wider), b_shape), dtype, vector};
}

NDArray result_of(const NDArray& x, const Sides& sides) {
  return cast(sides.vector ? squeeze(x, {-1}) : x, sides.dtype);
}

// The gradients of a and of b, for x with a x = b. of_b, the gradient of b, solves the equation with a
// transposed and the gradient of x on the right.
std::vector<NDArray> both_gradients(const NDArray& of_b, const NDArray& x) {
  return {negative(matmul(of_b, transposed(x))), of_b};
}

// The gradient of x from the gradient g of its pseudo-inverse p, for a constant rank (Golub and Pereyra
// 1973).
NDArray pinv_gradient(const NDArray& g, const NDArray& x, const NDArray& p) {
  const NDArray pt = transposed(p), gt = transposed(g);
  NDArray y = negative(matmul(matmul(pt, g), pt));
  const NDArray left = matmul(gt, matmul(p, pt)), right = matmul(matmul(pt, p), gt);
  y = y + left - matmul(x, matmul(p, left));
  return y + right - matmul(matmul(right, p), x);
}

// The inverses that gradients of determinants need. A singular matrix has a determinant but no inverse. The
// text in_errors tells the user which gradient failed.
constexpr LinalgOp kDetThrice{
    .op = "det_backward", .kernel = "inv", .in_errors = "det: its third gradient needs regular matrices"};
constexpr LinalgOp kSlogdetBackward{
    .op = "slogdet_backward", .kernel = "inv", .in_errors = "slogdet: its gradient needs regular matrices"};

// The gradient of cofactors(). The kernel det_second_gradient needs no inverse, but its result cannot be
// differentiated.
NDArray cofactors_gradient(const NDArray& g, const NDArray& x) {
  if (!differentiating_gradient())
    return push_linalg({.op = "det_backward", .kernel = "det_second_gradient"}, {x, g}, {x.shape()})[0];
  const NDArray back = transposed(inverse(kDetThrice, x)), trace = sum(back * g, {-2, -1});
  return with_ones(det(x), 2) * (with_ones(trace, 2) * back - matmul(matmul(back, transposed(g)), back));
}

// The derivative of det, which exists for singular matrices, too.
NDArray cofactors(const NDArray& x) {
  NDArray y = push_linalg({.op = "det_backward", .kernel = "det_gradient"}, {x}, {x.shape()})[0];
  if (recording({&x})) {
    const NDArray of_x = save_for_backward(x);
    record_op("det_backward", y, {x}, {of_x},
              [=](const NDArray& g) { return std::vector{cofactors_gradient(g, of_x)}; });
  }
  return y;
}

// The pseudo-inverse, outside the tape.
NDArray pseudo_inverse(const NDArray& x, double rtol) {
  const std::int64_t m = rows_of(x), n = columns_of(x), k = std::min(m, n);
  if (k == 0) {
    NDArray nothing = make_result(x, batch_shape(x, {n, m}), x.dtype());
    nothing.fill(0);
    return nothing;
  }
  const std::vector<NDArray> parts = thin_svd("pinv", x.detach());
  const NDArray& s = parts[1];
  const NDArray used = s > slice(s, -1, {.end = 1}) * rtol;
  const NDArray shares = where(used, 1 / where(used, s, 1), 0);
  return matmul(transposed(parts[2]) * as_row(shares), transposed(parts[0]));
}

}  // namespace

NDArray solve(const NDArray& given_a, const NDArray& given_b, Where at) {
  const CallSite site(at);
  const Sides given = sides("solve", given_a, given_b, true);
  NDArray x = push_linalg({.op = "solve", .kernel = "solve"}, {given.a, given.b}, {given.b.shape()})[0];
  if (recording({&given.a, &given.b})) {
    const NDArray of_a = save_for_backward(given.a), of_x = save_for_backward(x);
    record_op("solve", x, {given.a, given.b}, {of_a, of_x},
              [=](const NDArray& g) { return both_gradients(solve(transposed(of_a), g), of_x); });
  }
  return result_of(x, given);
}

NDArray solve_triangular(const NDArray& given_a, const NDArray& given_b, bool upper, Where at) {
  const CallSite site(at);
  const Sides given = sides("solve_triangular", given_a, given_b, true);
  NDArray x = push_linalg({.op = "solve_triangular", .kernel = "solve_triangular", .flag = upper},
                          {given.a, given.b}, {given.b.shape()})[0];
  if (recording({&given.a, &given.b})) {
    const NDArray of_a = save_for_backward(given.a), of_x = save_for_backward(x);
    record_op("solve_triangular", x, {given.a, given.b}, {of_a, of_x}, [=](const NDArray& g) {
      std::vector<NDArray> both = both_gradients(solve_triangular(transposed(of_a), g, !upper), of_x);
      both[0] = upper ? triu(both[0]) : tril(both[0]);
      return both;
    });
  }
  return result_of(x, given);
}

NDArray lstsq(const NDArray& given_a, const NDArray& given_b, std::optional<double> given_rtol, Where at) {
  const CallSite site(at);
  const Sides given = sides("lstsq", given_a, given_b, false);
  const double rtol = relative_tolerance("lstsq", given_rtol, given.a, given.dtype);
  const Shape shape = batch_shape(given.a, {columns_of(given.a), columns_of(given.b)});
  NDArray x = push_linalg({.op = "lstsq", .kernel = "lstsq", .number = rtol}, {given.a, given.b}, {shape})[0];
  if (recording({&given.a, &given.b})) {
    const NDArray of_a = save_for_backward(given.a), of_b = save_for_backward(given.b);
    record_op("lstsq", x, {given.a, given.b}, {of_a, of_b}, [=](const NDArray& g) {
      const NDArray p = pinv(of_a, rtol);
      return std::vector{pinv_gradient(matmul(g, transposed(of_b)), of_a, p), matmul(transposed(p), g)};
    });
  }
  return result_of(x, given);
}

NDArray operators_detail::inverse(const LinalgOp& op, const NDArray& x) {
  NDArray y = push_linalg(op, {x}, {x.shape()})[0];
  if (recording({&x})) {
    const NDArray of_y = save_for_backward(y);
    record_op(op.op, y, {x}, {of_y}, [=](const NDArray& g) {
      const NDArray back = transposed(of_y);
      return std::vector{negative(matmul(matmul(back, g), back))};
    });
  }
  return y;
}

NDArray inv(const NDArray& given, Where at) {
  const CallSite site(at);
  const NDArray x = square_matrices("inv", given);
  if (is_half(x.dtype())) return cast(inv(wide(x)), x.dtype());
  return inverse({.op = "inv", .kernel = "inv"}, x);
}

NDArray pinv(const NDArray& given, std::optional<double> given_rtol, Where at) {
  const CallSite site(at);
  const NDArray x = matrices("pinv", given);
  const double rtol = relative_tolerance("pinv", given_rtol, x, x.dtype());
  if (is_half(x.dtype())) return cast(pinv(wide(x), rtol), x.dtype());
  NDArray y = pseudo_inverse(x, rtol);
  if (recording({&x})) {
    const NDArray of_x = save_for_backward(x), of_y = save_for_backward(y);
    record_op("pinv", y, {x}, {of_x, of_y},
              [=](const NDArray& g) { return std::vector{pinv_gradient(g, of_x, of_y)}; });
  }
  return y;
}

NDArray det(const NDArray& given, Where at) {
  const CallSite site(at);
  const NDArray x = square_matrices("det", given);
  if (is_half(x.dtype())) return cast(det(wide(x)), x.dtype());
  NDArray y = push_linalg({.op = "det", .kernel = "det"}, {x}, {batch_shape(x)})[0];
  if (recording({&x})) {
    const NDArray of_x = save_for_backward(x);
    record_op("det", y, {x}, {of_x},
              [=](const NDArray& g) { return std::vector{with_ones(g, 2) * cofactors(of_x)}; });
  }
  return y;
}

std::vector<NDArray> slogdet(const NDArray& given, Where at) {
  const CallSite site(at);
  const NDArray x = square_matrices("slogdet", given);
  if (is_half(x.dtype())) {
    const std::vector<NDArray> y = slogdet(wide(x));
    return {cast(y[0], x.dtype()), cast(y[1], x.dtype())};
  }
  std::vector<NDArray> y =
      push_linalg({.op = "slogdet", .kernel = "det", .flag = true}, {x}, {batch_shape(x), batch_shape(x)});
  if (recording({&x})) {
    const NDArray of_x = save_for_backward(x);
    record_op("slogdet", y[0], {x}, {}, [shape = x.shape()](const NDArray& g) {
      return std::vector{broadcast_to(no_change(with_ones(g, 2)), shape)};
    });
    record_op("slogdet", y[1], {x}, {of_x}, [of_x](const NDArray& g) {
      return std::vector{with_ones(g, 2) * transposed(inverse(kSlogdetBackward, of_x))};
    });
  }
  return y;
}

NDArray cholesky(const NDArray& given, Where at) {
  const CallSite site(at);
  const NDArray x = square_matrices("cholesky", given);
  if (is_half(x.dtype())) return cast(cholesky(wide(x)), x.dtype());
  NDArray y = push_linalg({.op = "cholesky", .kernel = "cholesky"}, {x}, {x.shape()})[0];
  if (recording({&x})) {
    const NDArray l = save_for_backward(y);
    record_op("cholesky", y, {x}, {l}, [l](const NDArray& g) {
      // The gradient is L^-T P L^-1 (Murray 2016), where P is the lower triangle of L^T g with half of its
      // diagonal.
      const NDArray back = transposed(l), product = matmul(back, g);
      const NDArray lower = (tril(product) + tril(product, -1)) / 2;
      const NDArray whole = solve_triangular(back, transposed(solve_triangular(back, lower)));
      return std::vector{(whole + transposed(whole)) / 2};
    });
  }
  return y;
}

HEDDLE_OPERATORS(linalg_solve) {
  table.family("Linear algebra");
  const char *common = "common; f64 for integers and bool", *of_x = "that of x; f64 for integers and bool";
  const std::string threshold =
      " Singular values up to rtol times the largest count as 0; None is max(m, n) * epsilon.";
  const Argument rtol = {"rtol", kNone};
  table.add("solve", solve,
            {"x with a x = b: a (..., n, n), b (..., n, k), or (n) for one vector.",
             {"a", "b"},
             common,
             kDifferentiable});
  table.add("solve_triangular", solve_triangular,
            {"x with a x = b, where of a only the upper or lower triangle is read.",
             {"a", "b", {"upper", true}},
             common,
             kDifferentiable});
  table.add("lstsq", lstsq,
            {"x with the least |a x - b| and, among those, the least |x|." + threshold,
             {"a", "b", rtol},
             common,
             kDifferentiable});
  table.add("inv", inv, {"The inverse.", {"x"}, of_x, kDifferentiable});
  table.add("pinv", pinv, {"The pseudo-inverse." + threshold, {"x", rtol}, of_x, kDifferentiable});
  table.add("det", det, {"The determinant.", {"x"}, of_x, kDifferentiable});
  table.add("slogdet", slogdet,
            {"The sign of the determinant and the logarithm of its size.", {"x"}, of_x, kDifferentiable});
  table.add("cholesky", cholesky,
            {"L, lower triangular, with x = L L^T; only the lower triangle of x is read.",
             {"x"},
             of_x,
             kDifferentiable});
}

}  // namespace heddle
