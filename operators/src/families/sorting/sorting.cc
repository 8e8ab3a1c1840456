// sort, argsort, topk, kthvalue, quantile and median.
#include <string>
#include <vector>

#include <heddle/elementwise_math.h>
#include <heddle/number_text.h>
#include <heddle/rearrange.h>
#include <heddle/shape_ops.h>
#include <heddle/sorting.h>

#include "autograd/record.h"
#include "core/axis_last.h"
#include "core/operator.h"
#include "core/operator_table.h"
#include "families/reduce/reduction.h"
#include "families/sorting/kernels.h"

namespace heddle {

using namespace operators_detail;

namespace {

// The kernels store the key of an element and its index in 64 bits.
constexpr std::int64_t kLongestLine = std::int64_t{1} << 32;

// The axis to use, counted from the front; flattens x if none is given.
int axis_in(const char* op, NDArray& x, std::optional<int> given) {
  check_arrays(op, {&x});
  if (!given) x = reshape(x, {-1});
  if (given && x.ndim() == 0 && *given == -1) x = reshape(x, {1});
  const int axis = ndarray_detail::axis_of(op, given.value_or(0), x.shape());
  if (x.shape()[axis] > kLongestLine)
    throw InvalidArgument(std::string(op) + ": axis " + std::to_string(axis) + " of shape " +
                          x.shape().to_string() + " is longer than 2^32");
  return axis;
}

struct Sorted {
  NDArray values, indices;  // an array that the caller does not want is undefined
};

Sorted push_sort(const char* op, const NDArray& x, int axis, bool descending, bool values, bool indices) {
  const NDArray source = with_axis_last(x, axis);
  Sorted made;
  std::vector<NDArray> writes;
  if (values) writes.push_back(made.values = make_result(x, source.shape(), x.dtype()));
  if (indices) writes.push_back(made.indices = make_result(x, source.shape(), DType::i64));
  auto* kernel = kernel_for<SortKernel>("sort", x);
  push_op(op, {&source, 1}, writes, [=](const KernelContext& context) {
    kernel(context, source, made.values, made.indices, descending);
  });
  if (values) made.values = with_axis_back(made.values, axis);
  if (indices) made.indices = with_axis_back(made.indices, axis);
  return made;
}

NDArray of_shape(const NDArray& y, const NDArray& given, std::optional<int> axis) {
  return axis && y.shape() != given.shape() ? reshape(y, given.shape()) : y;
}

// The elements of ranks first to first + count - 1 along an axis, and their indices; on the tape.
std::array<NDArray, 2> push_select(const char* op, const NDArray& x, int axis, std::int64_t first,
                                   std::int64_t count, bool descending) {
  const NDArray source = with_axis_last(x, axis);
  Shape shape = source.shape();
  shape[shape.size() - 1] = count;
  const NDArray values = make_result(x, shape, x.dtype()), indices = make_result(x, shape, DType::i64);
  auto* kernel = kernel_for<SelectKernel>("select", x);
  array_push(op, {source}, {values, indices}, [=](const KernelContext& context) {
    kernel(context, source, values, indices, first, descending);
  });
  std::array<NDArray, 2> made{with_axis_back(values, axis), with_axis_back(indices, axis)};
  record_gathered(op, made[0], x, made[1], axis);
  return made;
}

// x with `axes` moved to the end and merged into one axis.
NDArray reduced_last(const char* op, const NDArray& x, const Dims& axes) {
  Dims order;
  Shape shape;
  std::int64_t count = 1;
  for (int d = 0, next = 0; d < x.ndim(); ++d) {
    const bool reduced = next < axes.size() && axes[next] == d;
    next += reduced;
    if (reduced) {
      count *= x.shape()[d];
      continue;
    }
    order.push_back(d);
    shape.push_back(x.shape()[d]);
  }
  if (count == 0)
    throw InvalidArgument(std::string(op) + ": nothing to choose from in shape " + x.shape().to_string());
  shape.push_back(count);
  for (const std::int64_t axis : axes) order.push_back(axis);
  return reshape(transpose(x, order), shape);
}

// A copy of q (f64) made by an op that throws if a value is outside [0, 1]: values are known only when the op
// runs, and take() would accept some of them as negative indices, or throw in its own name.
NDArray checked_fractions(const NDArray& q) {
  const NDArray source = q.detach().contiguous();
  NDArray y = make_result(q, q.shape(), DType::f64);
  if (recording({&q})) record_op("quantile", y, {q}, {}, [](const NDArray& g) { return std::vector{g}; });
  if (q.device().kind == DeviceKind::cuda) {
    auto* kernel = kernel_for<CheckedFractionsKernel>("checked_fractions", q);
    array_push("quantile", {source}, {y},
               [=, y = y.detach()](const KernelContext& context) { kernel(context, source, y); });
    return y;
  }
  array_push("quantile", {source}, {y}, [=, y = y.detach()] {
    const auto* from = source.data<const double>();
    auto* to = y.data<double>();
    for (std::int64_t i = 0; i < source.size(); ++i) {
      if (!(from[i] >= 0 && from[i] <= 1)) refuse_fraction(from[i]);
      to[i] = from[i];
    }
  });
  return y;
}

// Interpolates from the nearer of `below` and `above`, so that part 0 gives exactly below and part 1 exactly
// above. Where the difference overflows, uses a weighted sum; equal values, such as infinities, are returned
// as they are.
NDArray point_between(const NDArray& below, const NDArray& above, const NDArray& part) {
  const NDArray difference = above - below, far = !isfinite(difference);
  const NDArray step = where(far, 0, difference);
  const NDArray near = where(part < 0.5, below + step * part, above - step * (1 - part));
  const NDArray shares = below * (1 - part) + above * part;
  return where(below == above, below, where(far, shares, near));
}

// The point at fraction `part` between below and above. Its gradient goes to below and to above by their
// weights, also where they are equal.
NDArray between(const NDArray& below, const NDArray& above, const NDArray& part) {
  NDArray y = point_between(below.detach(), above.detach(), part.detach());
  if (recording({&below, &above, &part})) {
    const NDArray a = save_for_backward(below), b = save_for_backward(above), p = save_for_backward(part);
    record_op("quantile", y, {below, above, part}, {a, b, p}, [=](const NDArray& g) {
      const NDArray slope = where(a == b, 0, g * (b - a));
      return std::vector{g * (1 - p), g * p, sum_to_shape(slope, p.shape())};
    });
  }
  return y;
}

// Interpolates each sorted line at fractional indices `places` (f64, one axis), which become the first axis
// of the result.
NDArray at_fractional_indices(const NDArray& sorted, const NDArray& places) {
  const int last = sorted.ndim() - 1;
  const NDArray low = floor(places), high = ceil(places);
  const auto elements = [&](const NDArray& at) { return take(sorted, cast(at, DType::i64), last); };
  const NDArray chosen = between(elements(low), elements(high), cast(places - low, sorted.dtype()));
  const NDArray largest = slice(sorted, last, {.begin = -1});
  return moveaxis(where(isnan(largest), largest, chosen), {last}, {0});
}

}  // namespace

void refuse_fraction(double q) {
  throw InvalidArgument("quantile: q is " + number_text(q) + "; wanted 0 to 1");
}

NDArray operators_detail::with_axis_last(const NDArray& x, int axis) {
  NDArray y = x.detach();
  if (axis != x.ndim() - 1) {
    Dims axes;
    for (int d = 0; d < x.ndim(); ++d)
      if (d != axis) axes.push_back(d);
    axes.push_back(axis);
    y = y.permuted(axes);
  }
  return y.contiguous();
}

NDArray operators_detail::with_axis_back(const NDArray& y, int axis) {
  if (axis == y.ndim() - 1) return y;
  Dims axes;
  for (int d = 0; d < y.ndim(); ++d) axes.push_back(d < axis ? d : d == axis ? y.ndim() - 1 : d - 1);
  return y.permuted(axes).contiguous();
}

NDArray sort(const NDArray& given, std::optional<int> axis, bool descending, Where where) {
  const CallSite site(where);
  NDArray x = given;
  const int along = axis_in("sort", x, axis);
  const bool recorded = recording({&x});
  Sorted sorted = push_sort("sort", x, along, descending, true, recorded);
  if (recorded) record_gathered("sort", sorted.values, x, sorted.indices, along);
  return of_shape(sorted.values, given, axis);
}

NDArray argsort(const NDArray& given, std::optional<int> axis, bool descending, Where where) {
  const CallSite site(where);
  NDArray x = given;
  const int along = axis_in("argsort", x, axis);
  return of_shape(push_sort("argsort", x, along, descending, false, true).indices, given, axis);
}

std::array<NDArray, 2> topk(const NDArray& given, std::int64_t k, int axis, bool largest, Where where) {
  const CallSite site(where);
  NDArray x = given;
  const int along = axis_in("topk", x, axis);
  if (k < 0 || k > x.shape()[along])
    throw InvalidArgument("topk: k is " + std::to_string(k) + " for axis " + std::to_string(axis) +
                          " of shape " + given.shape().to_string());
  return push_select("topk", x, along, 0, k, largest);
}

std::array<NDArray, 2> kthvalue(const NDArray& given, std::int64_t k, int axis, bool keepdims, Where where) {
  const CallSite site(where);
  NDArray x = given;
  const int along = axis_in("kthvalue", x, axis);
  if (k < 1 || k > x.shape()[along])
    throw InvalidArgument("kthvalue: k is " + std::to_string(k) + " for axis " + std::to_string(axis) +
                          " of shape " + given.shape().to_string() + "; wanted 1 to its size");
  std::array<NDArray, 2> made = push_select("kthvalue", x, along, k - 1, 1, false);
  if (!keepdims || given.ndim() == 0)
    for (NDArray& one : made) one = squeeze(one, {along});
  return made;
}

NDArray quantile(const NDArray& given, const Operand& q, Dims axes, bool keepdims, Where where) {
  const CallSite site(where);
  check_arrays("quantile", {&given, q.is_array ? &q.array : &given});
  if (!q.is_array && !(q.scalar.real() >= 0 && q.scalar.real() <= 1)) refuse_fraction(q.scalar.real());
  if (q.is_array && !is_floating(q.array.dtype()))
    throw InvalidArgument(std::string("quantile: q has dtype ") + name_of(q.array.dtype()) +
                          "; wanted a floating one");
  if (!is_floating(given.dtype())) return quantile(cast(given, DType::f64), q, axes, keepdims);
  if (is_half(given.dtype())) return cast(quantile(wide(given), q, axes, keepdims), given.dtype());
  const Dims reduced = reduced_axes("quantile", given, axes);
  const NDArray lines = reduced_last("quantile", given, reduced);
  const EngineScope scope(given.engine());
  const NDArray fractions = q.is_array ? checked_fractions(cast(q.array, DType::f64))
                                       : full({}, q.scalar.real(), DType::f64, given.device());
  const auto steps = static_cast<double>(lines.shape()[lines.ndim() - 1] - 1);
  const NDArray y = at_fractional_indices(sort(lines), reshape(fractions, {-1}) * steps);
  Shape shape = fractions.shape();
  for (int d = 0, next = 0; d < given.ndim(); ++d) {
    const bool gone = next < reduced.size() && reduced[next] == d;
    next += gone;
    if (!gone) shape.push_back(given.shape()[d]);
    if (gone && keepdims) shape.push_back(1);
  }
  return reshape(y, shape);
}

NDArray median(const NDArray& x, Dims axes, bool keepdims, Where where) {
  const CallSite site(where);
  check_arrays("median", {&x});
  return ndarray_detail::in_name_of("median", [&] { return quantile(x, 0.5, axes, keepdims); });
}

HEDDLE_OPERATORS(sorting) {
  table.family("Sorting and searching");
  const Argument axis = {"axis", -1}, along = {"axis", kNone}, descending = {"descending", false},
                 keepdims = {"keepdims", false};
  const char* floating = "that of x; f64 for integers and bool";
  table.add("sort", sort,
            {"The elements along `axis` in rising order, or in falling order. NaN counts as the largest.",
             {"x", axis, descending},
             "that of x",
             kDifferentiable});
  table.add("argsort", argsort,
            {"Where the elements of sort() stand; equal ones stay in their order.",
             {"x", axis, descending},
             "i64"});
  table.add("topk", topk,
            {"The k largest elements along `axis`, or the smallest ones, in order, and their indices in i64.",
             {"x", "k", axis, {"largest", true}},
             "that of x; i64 of the indices",
             kDifferentiable});
  table.add("kthvalue", kthvalue,
            {"The k-th smallest element along `axis`, counted from 1, and its index in i64.",
             {"x", "k", axis, keepdims},
             "that of x; i64 of the index",
             kDifferentiable});
  table.add("median", median,
            {"The median along `axis`, an axis or several; None: all. NaN if any element is.",
             {"x", along, keepdims},
             floating,
             kDifferentiable});
  table.add("quantile", quantile,
            {"What the fraction q of the elements along `axis` is below, between two elements in proportion; "
             "the axes of an array q come first. None: all axes. NaN if any element is.",
             {"x", {"q", DTypes::floating}, along, keepdims},
             floating,
             kDifferentiable});
}

}  // namespace heddle
