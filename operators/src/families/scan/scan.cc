#include <string>
#include <vector>

#include <heddle/elementwise.h>
#include <heddle/elementwise_math.h>
#include <heddle/engine.h>
#include <heddle/rearrange.h>
#include <heddle/reduce.h>
#include <heddle/scan.h>
#include <heddle/shape_ops.h>

#include "autograd/record.h"
#include "core/autocast.h"
#include "core/axis_last.h"
#include "core/operator.h"
#include "core/operator_table.h"
#include "families/reduce/reduction.h"
#include "families/scan/kernels.h"

namespace heddle {

using namespace operators_detail;

namespace {

NDArray flipped(const NDArray& x, int axis) { return x.slice(axis, {.step = -1}); }

NDArray push_scan(const char* op, const NDArray& x, int axis) {
  const NDArray source = x.detach().contiguous(), y = make_result(x, x.shape(), x.dtype());
  auto* kernel = kernel_for<ScanKernel>(op, x);
  array_push(op, OpCost::per_element, {source}, {y},
             recordable([=](const KernelContext& context) { kernel(context, source, y, axis); }));
  return y;
}

NDArray scan_extreme(const char* op, const NDArray& x, int given) {
  check_arrays(op, {&x});
  if (is_half(x.dtype())) return cast(scan_extreme(op, wide(x), given), x.dtype());
  const int axis = ndarray_detail::axis_of(op, given, x.shape());
  const NDArray source = x.detach().contiguous(), indices = make_result(x, x.shape(), DType::i64);
  NDArray y = make_result(x, x.shape(), x.dtype());
  auto* kernel = kernel_for<ScanExtremeKernel>(op, x);
  array_push(op, {source}, {y, indices}, recordable([=, y = y.detach()](const KernelContext& context) {
               kernel(context, source, y, indices, axis);
             }));
  record_gathered(op, y, x, indices, axis);
  return y;
}

NDArray cumprod_gradient(const NDArray& g, const NDArray& x, int axis) {
  const NDArray gradient = g.detach().contiguous(), source = x.detach().contiguous(),
                y = make_result(x, x.shape(), x.dtype());
  auto* kernel = kernel_for<CumprodGradientKernel>("cumprod_gradient", x);
  array_push("cumprod_gradient", {gradient, source}, {y},
             recordable([=](const KernelContext& context) { kernel(context, gradient, source, y, axis); }));
  return y;
}

// The gradient of cumprod by operators that a tape records. Row j of a matrix has the products up to each
// index without x[j], by one cumprod along the rows.
NDArray cumprod_gradient_by_operators(const NDArray& g, const NDArray& x, int axis) {
  const EngineScope scope(x.engine());
  const std::int64_t n = x.shape()[axis];
  std::int64_t outer = 1, inner = 1;
  for (int i = 0; i < axis; ++i) outer *= x.shape()[i];
  for (int i = axis + 1; i < x.ndim(); ++i) inner *= x.shape()[i];
  const auto rows = [&](const NDArray& of) {
    return reshape(transpose(reshape(of, {outer, n, inner}), {0, 2, 1}), {outer, inner, 1, n});
  };
  const NDArray self = eye(n, DType::boolean, x.device()),
                later = triu(ones({n, n}, DType::boolean, x.device()));
  const NDArray products = cumprod(where(self, 1, rows(x)), -1), weights = rows(g);
  // A product with weight 0 counts as 0, even if it is infinite or NaN.
  const NDArray counts = later && (isfinite(products) || weights != 0);
  const NDArray sums = sum(where(counts, products, 0) * weights, {3});
  return reshape(transpose(sums, {0, 2, 1}), x.shape());
}

}  // namespace

NDArray operators_detail::product_of_others(const NDArray& x, int axis) {
  return push_scan("product_of_others", x, axis);
}

NDArray cumsum(const NDArray& x, int given, Where where) {
  const CallSite site(where);
  check_arrays("cumsum", {&x});
  if (is_half(x.dtype())) return operators_detail::narrowed(cumsum(wide(x), given), x.dtype());
  const int axis = ndarray_detail::axis_of("cumsum", given, x.shape());
  if (!is_floating(x.dtype())) return push_scan("cumsum", cast(x, sum_dtype(x.dtype())), axis);
  NDArray y = push_scan("cumsum", x, axis);
  if (recording({&x})) {
    record_op("cumsum", y, {x}, {}, [axis](const NDArray& g) {
      return std::vector{flipped(cumsum(flipped(g, axis), axis), axis)};
    });
  }
  return y;
}

NDArray cumprod(const NDArray& x, int given, Where where) {
  const CallSite site(where);
  check_arrays("cumprod", {&x});
  if (is_half(x.dtype())) return operators_detail::narrowed(cumprod(wide(x), given), x.dtype());
  const int axis = ndarray_detail::axis_of("cumprod", given, x.shape());
  if (!is_floating(x.dtype())) return push_scan("cumprod", cast(x, sum_dtype(x.dtype())), axis);
  NDArray y = push_scan("cumprod", x, axis);
  if (recording({&x})) {
    const NDArray kept = save_for_backward(x);
    record_op("cumprod", y, {x}, {kept}, [kept, axis](const NDArray& g) {
      return std::vector{differentiating_gradient() ? cumprod_gradient_by_operators(g, kept, axis)
                                                    : cumprod_gradient(g, kept, axis)};
    });
  }
  return y;
}

NDArray cummax(const NDArray& x, int axis, Where where) {
  const CallSite site(where);
  return scan_extreme("cummax", x, axis);
}

NDArray cummin(const NDArray& x, int axis, Where where) {
  const CallSite site(where);
  return scan_extreme("cummin", x, axis);
}

NDArray diff(const NDArray& x, std::int64_t n, int given, Where where) {
  const CallSite site(where);
  check_arrays("diff", {&x});
  if (n < 0) throw InvalidArgument("diff: n is " + std::to_string(n) + "; wanted 0 or more");
  if (x.dtype() == DType::boolean) throw InvalidArgument("diff: dtype bool; wanted a number's");
  const int axis = ndarray_detail::axis_of("diff", given, x.shape());
  if (n == 0) return copy(x);
  if (n > 1 && is_half(x.dtype())) return cast(diff(wide(x), n, given), x.dtype());
  NDArray y = x;
  for (std::int64_t i = 0; i < n && (i == 0 || y.shape()[axis] > 0); ++i)
    y = slice(y, axis, {.begin = 1}) - slice(y, axis, {.end = -1});
  return y;
}

HEDDLE_OPERATORS(scan) {
  table.family("Scans");
  const Argument axis = {"axis", -1};
  const char* dtype = "that of x; i64 for integers and bool, u64 for unsigned ones";
  table.add("cumsum", cumsum, {"Sums along `axis` up to each element.", {"x", axis}, dtype, kDifferentiable});
  table.add("cumprod", cumprod,
            {"Products along `axis` up to each element; beyond the range of f64 all are infinite or 0, as in "
             "NumPy.",
             {"x", axis},
             dtype,
             kDifferentiable});
  table.add(
      "cummax", cummax,
      {"The largest element along `axis` up to each element.", {"x", axis}, "that of x", kDifferentiable});
  table.add(
      "cummin", cummin,
      {"The smallest element along `axis` up to each element.", {"x", axis}, "that of x", kDifferentiable});
  table.add("diff", diff,
            {"Differences of neighbours along `axis`, n times.",
             {{"x", DTypes::no_bool}, {"n", 1}, axis},
             "that of x",
             kDifferentiable});
}

}  // namespace heddle
