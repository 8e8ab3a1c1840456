#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <heddle/autograd.h>
#include <heddle/creation.h>
#include <heddle/elementwise.h>
#include <heddle/elementwise_math.h>
#include <heddle/reduce.h>
#include <heddle/shape_ops.h>
#include <heddle/statistics.h>

#include "autograd/record.h"
#include "core/autocast.h"
#include "core/halves.h"
#include "core/operator.h"
#include "core/operator_table.h"
#include "families/elementwise/elementwise_gradient.h"
#include "families/elementwise/elementwise_rule.h"
#include "families/reduce/reduction.h"

namespace heddle {

using namespace operators_detail;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// x as a floating array; checks it in the name of `op`.
NDArray floating(const char* op, const NDArray& x) {
  check_arrays(op, {&x});
  return is_floating(x.dtype()) ? x : x.astype(DType::f64);
}

// Permutations that move several axes to the end, where a line of elements along them becomes a row of a
// matrix, and back.
struct RowsOfAxes {
  RowsOfAxes(const NDArray& x, const Dims& axes) {
    for (int axis = 0; axis < x.ndim(); ++axis)
      if (std::find(axes.begin(), axes.end(), axis) == axes.end()) order.push_back(axis);
    for (const std::int64_t axis : axes) {
      order.push_back(axis);
      count *= x.shape()[static_cast<int>(axis)];
    }
    for (int axis = 0; axis < x.ndim(); ++axis)
      back.push_back(std::find(order.begin(), order.end(), axis) - order.begin());
    rows = count == 0 ? 0 : x.size() / count;
  }

  Dims order, back;
  std::int64_t count = 1, rows;
};

// The derivative of the product along the axes: for each element the product of the others.
NDArray shares_of_product(const NDArray& given, const Dims& axes) {
  const NDArray x = given.detach();
  if (axes.size() == 1) return product_of_others(x, static_cast<int>(axes[0]));
  const RowsOfAxes rows(x, axes);
  const NDArray lines = transpose(x, rows.order);
  const NDArray shares = product_of_others(reshape(lines, {rows.rows, rows.count}), 1);
  return transpose(reshape(shares, lines.shape()), rows.back);
}

// As shares_of_product(), by operators that a tape records; their gradients are right where elements are 0,
// too. Each line becomes a matrix: row i is the line with a 1 at element i, so that the products of the rows
// are the shares.
NDArray shares_by_operators(const NDArray& x, const Dims& axes) {
  const RowsOfAxes rows(x, axes);
  const NDArray lines = transpose(x, rows.order);
  const NDArray copies = reshape(lines, {rows.rows, 1, rows.count});
  const NDArray others = prod(where(eye(rows.count, DType::boolean, x.device()), 1, copies), {2});
  return transpose(reshape(others, lines.shape()), rows.back);
}

std::int64_t count_along(const NDArray& x, const Dims& axes) {
  std::int64_t count = 1;
  for (const std::int64_t axis : axes) count *= x.shape()[static_cast<int>(axis)];
  return count;
}

// The Euclidean norm along the axes, outside the tape; the result keeps the axes.
NDArray length_along(const NDArray& x, const Dims& axes) { return push_reduce("norm", x, axes, x.dtype()); }

// The norm for p = 2. Its gradient at 0, where the square root has none, is 0.
NDArray euclidean_norm(const NDArray& x, const Dims& given, bool keepdims) {
  const Dims axes = reduced_axes("norm", x, given);
  const NDArray kept = length_along(x, axes);
  NDArray y = without_reduced(kept, x, axes, keepdims);
  if (recording({&x})) {
    const NDArray of_x = save_for_backward(x), of_y = save_for_backward(y);
    record_op("norm", y, {x}, {of_x, of_y}, [of_x, of_y, shape = kept.shape()](const NDArray& g) {
      const NDArray length = of_y.view_as(shape), flat = length == 0;
      return std::vector{where(flat, 0, g.contiguous().view_as(shape) * (of_x / where(flat, 1, length)))};
    });
  }
  return y;
}

// The norm for other p. Scales by the largest absolute value, or the smallest for p < 0, so that powers
// neither overflow nor underflow. The gradient of an element that is 0, and of a norm that is 0, is 0.
NDArray power_norm(const NDArray& x, double p, const Dims& given, bool keepdims) {
  const Dims axes = reduced_axes("norm", x, given);
  const NDArray sizes = abs(x.detach());
  NDArray kept;
  if (x.size() == 0) {
    kept = power(sum(sizes, axes, true), 1 / p);
  } else {
    const NDArray extreme = p > 0 ? max(sizes, axes, true) : min(sizes, axes, true);
    const NDArray scale = where(isfinite(extreme) && extreme > 0, extreme, 1);
    kept = scale * power(sum(power(sizes / scale, p), axes, true), 1 / p);
  }
  NDArray y = without_reduced(kept, x, axes, keepdims);
  if (recording({&x})) {
    const NDArray of_x = save_for_backward(x), of_y = save_for_backward(y);
    record_op("norm", y, {x}, {of_x, of_y}, [of_x, of_y, p, shape = kept.shape()](const NDArray& g) {
      const NDArray length = of_y.view_as(shape), flat = of_x == 0 || length == 0;
      const NDArray share = where(flat, 1, abs(of_x) / where(length == 0, 1, length));
      return std::vector{where(flat, 0, g.contiguous().view_as(shape) * sign(of_x) * power(share, p - 1))};
    });
  }
  return y;
}

// Half the distances from the mean, on the tape; the whole distances may overflow. This linear function is
// its own gradient.
NDArray half_deviations(const NDArray& x, const Dims& axes) {
  const NDArray given = x.detach();
  NDArray y = push_binary("half_difference", given, mean(given, axes, true), {x.dtype(), x.dtype()});
  if (recording({&x}))
    record_op("var", y, {x}, {}, [axes](const NDArray& g) { return std::vector{half_deviations(g, axes)}; });
  return y;
}

// For half deviations d: 4 sum(d^2) / number. The sum is f64; for f64 elements it may overflow where the
// result does not.
NDArray mean_square(const NDArray& d, const Dims& axes, double number) {
  const NDArray squares = push_reduce("sum_of_squares", d, axes, DType::f64), y = squares / (number / 4);
  if (d.dtype() == DType::f32) return cast(y, DType::f32);
  return where(isinf(squares), square(length_along(d, axes) / (std::sqrt(number) / 2)), y);
}

// The root of mean_square().
NDArray root_mean_square(const NDArray& d, const Dims& axes, double number) {
  if (d.dtype() == DType::f64) return length_along(d, axes) / (std::sqrt(number) / 2);
  return cast(sqrt(push_reduce("sum_of_squares", d, axes, DType::f64) / (number / 4)), DType::f32);
}

// n - correction, at least 0: for corrections of n or more, results are infinite or NaN.
double divisor_of(const NDArray& x, const Dims& axes, double correction) {
  return std::max(0.0, static_cast<double>(count_along(x, axes)) - correction);
}

// x with `instead` in place of NaN.
NDArray without_nan(const NDArray& x, double instead) {
  return is_floating(x.dtype()) ? where(isnan(x), instead, x) : x;
}

NDArray of_nonzero(const char* op, const NDArray& x, const Dims& given, bool keepdims) {
  check_arrays(op, {&x});
  const Dims axes = reduced_axes(op, x, given);
  const DType dtype = op == std::string("count_nonzero") ? DType::i64 : DType::boolean;
  return without_reduced(push_reduce(op, x, axes, dtype), x, axes, keepdims);
}

}  // namespace

NDArray prod(const NDArray& x, Dims given, bool keepdims, Where where) {
  const CallSite site(where);
  check_arrays("prod", {&x});
  const bool half = is_half(x.dtype());
  if (half && (recording({&x}) || !operators_detail::reads_halves(x)))
    return operators_detail::narrowed(prod(wide(x), given, keepdims), x.dtype());
  const Dims axes = reduced_axes("prod", x, given);
  const NDArray kept = push_reduce("prod", x, axes, half ? DType::f32 : sum_dtype(x.dtype()));
  NDArray y = without_reduced(kept, x, axes, keepdims);
  if (half) return operators_detail::narrowed(y, x.dtype());
  if (recording({&x})) {
    const NDArray of_x = save_for_backward(x);
    record_op("prod", y, {x}, {of_x}, [x = of_x, axes, shape = kept.shape()](const NDArray& g) {
      const NDArray shares =
          differentiating_gradient() ? shares_by_operators(x, axes) : shares_of_product(x, axes);
      return std::vector{g.contiguous().view_as(shape) * shares};
    });
  }
  return y;
}

NDArray var(const NDArray& given, Dims given_axes, double correction, bool keepdims, Where where) {
  const CallSite site(where);
  const NDArray x = floating("var", given);
  if (is_half(x.dtype()))
    return operators_detail::narrowed(var(wide(x), given_axes, correction, keepdims), x.dtype());
  const Dims axes = reduced_axes("var", x, given_axes);
  const double number = divisor_of(x, axes, correction);
  const NDArray kept = mean_square(half_deviations(x.detach(), axes), axes, number);
  NDArray y = without_reduced(kept, x, axes, keepdims);
  if (recording({&x})) {
    const NDArray of_x = save_for_backward(x);
    record_op("var", y, {x}, {of_x}, [of_x, axes, number, shape = kept.shape()](const NDArray& g) {
      return std::vector{g.contiguous().view_as(shape) * (half_deviations(of_x, axes) * (4 / number))};
    });
  }
  return y;
}

// The gradient of a standard deviation of 0, where the derivative has a pole, counts as 0.
NDArray stddev(const NDArray& given, Dims given_axes, double correction, bool keepdims, Where where) {
  const CallSite site(where);
  const NDArray x = floating("stddev", given);
  if (is_half(x.dtype()))
    return operators_detail::narrowed(stddev(wide(x), given_axes, correction, keepdims), x.dtype());
  const Dims axes = reduced_axes("stddev", x, given_axes);
  const double number = divisor_of(x, axes, correction);
  const NDArray kept = root_mean_square(half_deviations(x.detach(), axes), axes, number);
  NDArray y = without_reduced(kept, x, axes, keepdims);
  if (recording({&x})) {
    const NDArray of_x = save_for_backward(x), of_y = save_for_backward(y);
    record_op("stddev", y, {x}, {of_x, of_y}, [=, shape = kept.shape()](const NDArray& g) {
      const NDArray deviation = of_y.view_as(shape), flat = deviation == 0;
      const NDArray share = half_deviations(of_x, axes) / heddle::where(flat, 1, deviation);
      return std::vector{heddle::where(flat, 0, g.contiguous().view_as(shape) * (share * (2 / number)))};
    });
  }
  return y;
}

// Where all elements are -infinity, the gradient is 0.
NDArray logsumexp(const NDArray& given, Dims given_axes, bool keepdims, Where where) {
  const CallSite site(where);
  const NDArray x = floating("logsumexp", given);
  if (is_half(x.dtype()))
    return operators_detail::narrowed(logsumexp(wide(x), given_axes, keepdims), x.dtype());
  const Dims axes = reduced_axes("logsumexp", x, given_axes);
  if (x.size() == 0) return log(sum(exp(x), given_axes, keepdims));
  const NDArray source = x.detach(), largest = max(source, axes, true);
  // An infinite maximum would make NaN of infinity - infinity.
  const NDArray shift = heddle::where(isfinite(largest), largest, 0);
  const NDArray kept = log(sum(exp(source - shift), axes, true)) + shift;
  NDArray y = without_reduced(kept, x, axes, keepdims);
  if (recording({&x})) {
    const NDArray of_x = save_for_backward(x), of_y = save_for_backward(y);
    record_op("logsumexp", y, {x}, {of_x, of_y}, [of_x, of_y, shape = kept.shape()](const NDArray& g) {
      const NDArray result = of_y.view_as(shape), nothing = result == -kInfinity;
      const NDArray share = exp(of_x - heddle::where(nothing, 0, result));
      return std::vector{g.contiguous().view_as(shape) * share};
    });
  }
  return y;
}

NDArray norm(const NDArray& given, double p, Dims axes, bool keepdims, Where where) {
  const CallSite site(where);
  const NDArray x = floating("norm", given);
  if (std::isnan(p)) throw InvalidArgument("norm: p is NaN");
  if (is_half(x.dtype())) return operators_detail::narrowed(norm(wide(x), p, axes, keepdims), x.dtype());
  return ndarray_detail::in_name_of("norm", [&] {
    // The maximum of no elements is 0, like every norm of no elements with a positive p.
    if (p == kInfinity) return x.size() == 0 ? sum(abs(x), axes, keepdims) : max(abs(x), axes, keepdims);
    if (p == -kInfinity) return min(abs(x), axes, keepdims);
    if (p == 0) {
      NDArray count = cast(count_nonzero(x, axes, keepdims), x.dtype());
      record_constant("norm", count, x);
      return count;
    }
    if (p == 1) return sum(abs(x), axes, keepdims);
    if (p == 2) return euclidean_norm(x, axes, keepdims);
    return power_norm(x, p, axes, keepdims);
  });
}

NDArray count_nonzero(const NDArray& x, Dims axes, bool keepdims, Where where) {
  const CallSite site(where);
  return of_nonzero("count_nonzero", x, axes, keepdims);
}

NDArray any(const NDArray& x, Dims axes, bool keepdims, Where where) {
  const CallSite site(where);
  return of_nonzero("any", x, axes, keepdims);
}

NDArray all(const NDArray& x, Dims axes, bool keepdims, Where where) {
  const CallSite site(where);
  return of_nonzero("all", x, axes, keepdims);
}

bool allclose(const NDArray& a, const NDArray& b, double rtol, double atol, bool equal_nan, Where where) {
  const CallSite site(where);
  check_arrays("allclose", {&a, &b});
  const NoGrad no_grad;
  const NDArray close = ndarray_detail::in_name_of("allclose", [&] {
    const NDArray x = cast(a, DType::f64), y = cast(b, DType::f64);
    // The tolerance for an infinite y is infinite, too, and would admit every x.
    const NDArray near = (abs(x - y) <= atol + rtol * abs(y) && isfinite(y)) || x == y;
    return all(equal_nan ? near || (isnan(x) && isnan(y)) : near);
  });
  return close.item<bool>();
}

NDArray nansum(const NDArray& x, Dims axes, bool keepdims, Where where) {
  const CallSite site(where);
  check_arrays("nansum", {&x});
  return ndarray_detail::in_name_of("nansum", [&] { return sum(without_nan(x, 0), axes, keepdims); });
}

NDArray nanmean(const NDArray& given, Dims axes, bool keepdims, Where where) {
  const CallSite site(where);
  const NDArray x = floating("nanmean", given);
  if (is_half(x.dtype())) return operators_detail::narrowed(nanmean(wide(x), axes, keepdims), x.dtype());
  return ndarray_detail::in_name_of("nanmean", [&] {
    const NDArray count = cast(sum(!isnan(x), axes, keepdims), x.dtype());
    // Divides by a power of 2 not below the number of elements, so that the sum does not overflow.
    const std::int64_t most = std::max<std::int64_t>(1, count_along(x, reduced_axes("nanmean", x, axes)));
    const auto parts = static_cast<double>(std::bit_ceil(static_cast<std::uint64_t>(most)));
    return sum(without_nan(x, 0) / parts, axes, keepdims) / count * parts;
  });
}

NDArray nanmax(const NDArray& x, Dims axes, bool keepdims, Where where) {
  const CallSite site(where);
  check_arrays("nanmax", {&x});
  return ndarray_detail::in_name_of("nanmax", [&] {
    if (!is_floating(x.dtype())) return max(x, axes, keepdims);
    const NDArray y = max(without_nan(x, -kInfinity), axes, keepdims);
    return heddle::where(all(isnan(x), axes, keepdims), std::nan(""), y);
  });
}

NDArray nanmin(const NDArray& x, Dims axes, bool keepdims, Where where) {
  const CallSite site(where);
  check_arrays("nanmin", {&x});
  return ndarray_detail::in_name_of("nanmin", [&] {
    if (!is_floating(x.dtype())) return min(x, axes, keepdims);
    const NDArray y = min(without_nan(x, kInfinity), axes, keepdims);
    return heddle::where(all(isnan(x), axes, keepdims), std::nan(""), y);
  });
}

HEDDLE_OPERATORS(statistics) {
  table.family("Statistics");
  const Argument axis = {"axis", kNone}, keepdims = {"keepdims", false}, correction = {"correction", 0.0};
  const std::string along = " along `axis`, an axis or several; None: all.";
  const char *total = "that of x; i64 for integers and bool, u64 for unsigned ones",
             *floating_one = "that of x; f64 for integers and bool";
  table.add("prod", prod,
            {"The product" + along +
                 " What leaves the range of f64 on the way is infinite or 0; the shape tells the order.",
             {"x", axis, keepdims},
             total,
             kDifferentiable});
  table.add("var", var,
            {"The mean square distance from the mean, over n - correction," + along,
             {"x", axis, correction, keepdims},
             floating_one,
             kDifferentiable});
  table.add(
      "std", stddev,
      {"The square root of var" + along, {"x", axis, correction, keepdims}, floating_one, kDifferentiable});
  table.add(
      "logsumexp", logsumexp,
      {"log(sum(exp(x))), without overflow," + along, {"x", axis, keepdims}, floating_one, kDifferentiable});
  table.add("norm", norm,
            {"(sum |x|^p)^(1/p)" + along, {"x", {"p", 2.0}, axis, keepdims}, floating_one, kDifferentiable});
  table.add("any", any, {"Whether any element is not 0," + along, {"x", axis, keepdims}, "bool"});
  table.add("all", all, {"Whether every element is not 0," + along, {"x", axis, keepdims}, "bool"});
  table.add("count_nonzero", count_nonzero,
            {"The number of elements that are not 0," + along, {"x", axis, keepdims}, "i64"});
  table.add("nansum", nansum, {"The sum without NaN" + along, {"x", axis, keepdims}, total, kDifferentiable});
  table.add("nanmean", nanmean,
            {"The mean without NaN" + along, {"x", axis, keepdims}, floating_one, kDifferentiable});
  table.add(
      "nanmax", nanmax,
      {"The largest element that is not NaN" + along, {"x", axis, keepdims}, "that of x", kDifferentiable});
  table.add(
      "nanmin", nanmin,
      {"The smallest element that is not NaN" + along, {"x", axis, keepdims}, "that of x", kDifferentiable});
}

}  // namespace heddle
