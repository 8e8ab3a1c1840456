// Operators that search sorted arrays, find distinct elements, and count.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <heddle/number_text.h>
#include <heddle/reduce.h>
#include <heddle/scatter.h>
#include <heddle/shape_ops.h>
#include <heddle/sorting.h>

#include "core/operator.h"
#include "core/operator_table.h"
#include "families/elementwise/elementwise_rule.h"
#include "families/sorting/kernels.h"

namespace heddle {

using namespace operators_detail;

namespace {

constexpr std::int64_t kMostBins = std::int64_t{1} << 40;

NDArray flat(const NDArray& x) { return reshape(x.detach(), {-1}); }

// A copy of the first `count` elements of x.
NDArray first_of(const NDArray& x, std::int64_t count) { return x.slice(0, {0, count}).copy(); }

std::array<NDArray, 4> distinct_all(const char* op, const NDArray& x, bool equal_nan) {
  check_arrays(op, {&x});
  const NDArray source = flat(x).contiguous();
  const Shape shape = source.shape();
  const NDArray values = make_result(x, shape, x.dtype()), indices = make_result(x, shape, DType::i64);
  const NDArray inverse = make_result(x, shape, DType::i64), counts = make_result(x, shape, DType::i64);
  const NDArray number = make_result(x, {}, DType::i64);
  auto* kernel = kernel_for<UniqueKernel>("unique", x);
  array_push(op, {source}, {values, indices, inverse, counts, number}, [=](const KernelContext& context) {
    kernel(context, source, values, indices, inverse, counts, number, equal_nan);
  });
  const auto count = number.item<std::int64_t>();
  return {first_of(values, count), first_of(indices, count), inverse.view_as(x.shape()),
          first_of(counts, count)};
}

NDArray distinct(const char* op, const NDArray& x, bool equal_nan) {
  check_arrays(op, {&x});
  const NDArray source = flat(x).contiguous();
  const NDArray values = make_result(x, source.shape(), x.dtype()), number = make_result(x, {}, DType::i64);
  auto* kernel = kernel_for<UniqueKernel>("unique", x);
  array_push(op, {source}, {values, number}, [=](const KernelContext& context) {
    kernel(context, source, values, NDArray(), NDArray(), NDArray(), number, equal_nan);
  });
  return first_of(values, number.item<std::int64_t>());
}

// A bound of a histogram as an array of one element: the given one, else the extreme of x, else `otherwise`
// if x is empty.
NDArray bound_of(const NDArray& x, std::optional<double> given, double otherwise,
                 NDArray (*extreme)(const NDArray&, Dims, bool, Where)) {
  if (!given && x.size() > 0) return extreme(x, {}, false, Where::current());
  const EngineScope scope(x.engine());
  return full({}, given.value_or(otherwise), x.dtype(), x.device());
}

// Computes edges from low to high in equal steps. This is not among the CPU's kernels, since a fused multiply-add
// would shift edges that lie on integers.
template <class T> void write_edges(T least, T most, T* edges, std::int64_t bins) {
  auto low = static_cast<double>(least), high = static_cast<double>(most);
  if (!std::isfinite(low) || !std::isfinite(high)) refuse_infinite_bounds(low, high);
  if (low > high) refuse_order_of_bounds(low, high);  // one bound is given, and all elements are beyond it
  if (low == high) low -= 0.5, high += 0.5;
  const auto number = static_cast<double>(bins);
  const double width = (high - low) / number;
  for (std::int64_t i = 0; i < bins; ++i) {
    const auto at = static_cast<double>(i);
    // high - low may overflow for large numbers; the terms of the weighted sum do not.
    edges[i] = static_cast<T>(std::isfinite(width) ? low + at * width
                                                   : low * (1 - at / number) + high * (at / number));
  }
  edges[bins] = static_cast<T>(high);
}

NDArray push_edges(const NDArray& least, const NDArray& most, std::int64_t bins) {
  const NDArray edges = make_result(least, {bins + 1}, least.dtype());
  if (least.device().kind == DeviceKind::cuda) {
    auto* kernel = kernel_for<HistogramEdgesKernel>("histogram_edges", least);
    array_push("histogram", {least, most}, {edges},
               [=](const KernelContext& context) { kernel(context, least, most, edges); });
    return edges;
  }
  array_push("histogram", {least, most}, {edges}, [=] {
    if (edges.dtype() == DType::f64)
      return write_edges(*least.data<const double>(), *most.data<const double>(), edges.data<double>(), bins);
    write_edges(*least.data<const float>(), *most.data<const float>(), edges.data<float>(), bins);
  });
  return edges;
}

// No dtype holds both u64 and signed integers. So this function searches in u64 if `sorted` is u64, else in
// i64: negative values are below any u64, values above 2^63 - 1 are above any signed element.
NDArray searchsorted_beside_u64(const NDArray& sorted, const NDArray& values, bool right) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  if (sorted.dtype() == DType::u64) {
    const NDArray places = searchsorted(sorted, cast(maximum(values, 0), DType::u64), right);
    return heddle::where(values < 0, 0, places);
  }
  const NDArray places =
      searchsorted(cast(sorted, DType::i64), cast(minimum(values, kMost), DType::i64), right);
  return heddle::where(values > kMost, sorted.size(), places);
}

}  // namespace

void refuse_infinite_bounds(double low, double high) {
  throw InvalidArgument("histogram: the bounds " + number_text(low) + " and " + number_text(high) +
                        " are not finite");
}

void refuse_order_of_bounds(double low, double high) {
  throw InvalidArgument("histogram: low is " + number_text(low) + " and high " + number_text(high) +
                        "; wanted low <= high");
}

NDArray searchsorted(const NDArray& given, const NDArray& wanted, bool right, Where where) {
  const CallSite site(where);
  check_arrays("searchsorted", {&given, &wanted});
  if (given.ndim() != 1)
    throw InvalidArgument("searchsorted: the sorted array has shape " + given.shape().to_string() +
                          "; wanted one axis");
  const bool of_u64 = given.dtype() == DType::u64, for_u64 = wanted.dtype() == DType::u64;
  if ((of_u64 && is_signed_integer(wanted.dtype())) || (for_u64 && is_signed_integer(given.dtype())))
    return searchsorted_beside_u64(given.detach(), wanted.detach(), right);
  const DType dtype = promote(given.dtype(), wanted.dtype());
  const NDArray sorted = cast(given.detach(), dtype).contiguous(), values = cast(wanted.detach(), dtype);
  const NDArray y = make_result(wanted, wanted.shape(), DType::i64);
  auto* kernel = kernel_for<SearchKernel>("searchsorted", given);
  array_push("searchsorted", {sorted, values}, {y},
             [=](const KernelContext& context) { kernel(context, sorted, values, y, right); });
  return y;
}

NDArray isin(const NDArray& x, const NDArray& elements, bool invert, Where where) {
  const CallSite site(where);
  check_arrays("isin", {&x, &elements});
  const EngineScope scope(x.engine());
  if (elements.size() == 0) return full(x.shape(), invert, DType::boolean, x.device());
  const bool of_u64 = x.dtype() == DType::u64 && is_signed_integer(elements.dtype());
  if (of_u64 || (elements.dtype() == DType::u64 && is_signed_integer(x.dtype()))) {
    // No dtype holds both u64 and signed integers exactly. Values that are in both ranges are in [0, 2^63).
    const NDArray other = cast(x.detach(), elements.dtype() == DType::u64 ? DType::u64 : DType::i64);
    const NDArray found = isin(other, cast(elements, other.dtype()));
    const NDArray in_both = of_u64 ? x.detach() <= std::numeric_limits<std::int64_t>::max() : x.detach() >= 0;
    return invert ? logical_not(found * in_both) : found * in_both;
  }
  const DType dtype = promote(x.dtype(), elements.dtype());
  const NDArray sorted = sort(cast(flat(elements), dtype)), sought = cast(x.detach(), dtype);
  const NDArray place = minimum(searchsorted(sorted, sought), elements.size() - 1);
  const NDArray found = take(sorted, place);
  return invert ? not_equal(found, sought) : equal(found, sought);
}

std::array<NDArray, 2> histogram(const NDArray& given, std::int64_t bins, std::optional<double> low,
                                 std::optional<double> high, Where where) {
  const CallSite site(where);
  check_arrays("histogram", {&given});
  if (bins < 1 || bins > kMostBins)
    throw InvalidArgument("histogram: bins is " + std::to_string(bins) + "; wanted 1 or more");
  if (low && high && !(*low <= *high)) refuse_order_of_bounds(*low, *high);
  NDArray x = wide(flat(given.detach())).contiguous();
  if (!is_floating(x.dtype())) x = x.astype(DType::f64);
  // If x is empty, a bound that is not given is 0 or 1, or the other bound where 0 or 1 would be on its wrong
  // side.
  const NDArray least = bound_of(x, low, std::min(0.0, high.value_or(0)), min),
                most = bound_of(x, high, std::max(1.0, low.value_or(1)), max);
  NDArray edges = push_edges(least, most, bins);
  // Elements are counted by the edges as they are returned, rounded to x's dtype.
  if (is_half(given.dtype())) edges = cast(edges, given.dtype());
  const NDArray counts = make_result(x, {bins}, DType::i64), borders = wide(edges);
  auto* kernel = kernel_for<HistogramKernel>("histogram", x);
  array_push("histogram", {x, borders}, {counts},
             [=](const KernelContext& context) { kernel(context, x, borders, counts); });
  return {counts, edges};
}

NDArray unique(const NDArray& x, bool equal_nan, Where where) {
  const CallSite site(where);
  return distinct("unique", x, equal_nan);
}

std::array<NDArray, 4> unique_all(const NDArray& x, bool equal_nan, Where where) {
  const CallSite site(where);
  return distinct_all("unique_all", x, equal_nan);
}

NDArray bincount(const NDArray& given, const NDArray& weights, std::int64_t minlength, Where where) {
  const CallSite site(where);
  check_arrays("bincount", {&given, weights.defined() ? &weights : &given});
  if (is_floating(given.dtype()) || given.dtype() == DType::boolean)
    throw InvalidArgument(std::string("bincount: dtype ") + name_of(given.dtype()) + "; wanted integers");
  if (given.ndim() != 1 || (weights.defined() && weights.shape() != given.shape()))
    throw InvalidArgument("bincount: shape " + given.shape().to_string() +
                          (weights.defined() ? " and weights of " + weights.shape().to_string() : "") +
                          "; wanted one axis");
  if (minlength < 0)
    throw InvalidArgument("bincount: minlength is " + std::to_string(minlength) + "; wanted 0 or more");
  const NDArray x = cast(given.detach(), DType::i64);
  std::int64_t length = minlength;
  if (x.size() > 0) {
    const NDArray least = min(x), most = max(x);
    if (const auto smallest = least.item<std::int64_t>(); smallest < 0)
      throw InvalidArgument("bincount: an element is " + std::to_string(smallest) + "; wanted 0 or more");
    const auto largest = most.item<std::int64_t>();
    if (largest >= kMostBins)
      throw InvalidArgument("bincount: an element is " + std::to_string(largest) + "; wanted less");
    length = std::max(length, largest + 1);
  }
  if (weights.defined()) {
    const EngineScope scope(x.engine());
    return scatter_add(zeros({length}, DType::f64, x.device()), x, cast(weights, DType::f64));
  }
  const NDArray source = x.contiguous(), y = make_result(x, {length}, DType::i64);
  auto* kernel = kernel_for<BincountKernel>("bincount", x);
  array_push("bincount", {source}, {y}, [=](const KernelContext& context) { kernel(context, source, y); });
  return y;
}

HEDDLE_OPERATORS(searching) {
  table.family("Sorting and searching");
  const Argument equal_nan = {"equal_nan", true};
  table.add(
      "searchsorted", searchsorted,
      {"Where each value would have to be inserted into an array with one axis that rises: before equal "
       "elements, or with `right` behind them.",
       {"sorted", "values", {"right", false}},
       "i64"});
  table.add("isin", isin,
            {"Which elements of x are among `elements`, or with `invert` which are not.",
             {"x", "elements", {"invert", false}},
             "bool"});
  table.add(
      "histogram", histogram,
      {"How many elements are in bins of one width from low to high, None: from the smallest and to the "
       "largest element; and the edges of the bins.",
       {"x", {"bins", 10}, {"low", kNone}, {"high", kNone}},
       "i64; of the edges that of x, f64 of integers"});
  table.add("unique", unique,
            {"The distinct elements of the flattened array in rising order. The call waits for x.",
             {"x", equal_nan},
             "that of x"});
  table.add(
      "unique_all", unique_all,
      {"The distinct elements, the index of the first of each, which of them each element of x is, and how "
       "often each comes. The call waits for x.",
       {"x", equal_nan},
       "that of x; i64 of the others"});
  table.add(
      "bincount", bincount,
      {"How often each of 0, 1, 2, ... comes in x, or the sums of the weights there. The call waits for x.",
       {{"x", DTypes::integers}, {"weights", kNone}, {"minlength", 0}},
       "i64; f64 with weights",
       kDifferentiable});
}

}  // namespace heddle
