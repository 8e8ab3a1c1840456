// linspace, logspace, and the operators named _like.
#include <string>

#include <heddle/creation.h>
#include <heddle/parallel.h>

#include "core/operator.h"
#include "core/operator_table.h"
#include "families/creation/kernels.h"

namespace heddle {

using namespace operators_detail;

namespace {

NDArray make_series(const char* op, std::int64_t num, DType dtype, Device device, const Series& series) {
  if (num < 0)
    throw InvalidArgument(std::string(op) + ": num is " + std::to_string(num) + "; wanted 0 or more");
  const NDArray y = ndarray_detail::in_name_of(op, [&] { return NDArray({num}, dtype, device); });
  if (device.kind == DeviceKind::cuda) {
    auto* kernel = kernel_for<SeriesKernel>(op, y);
    array_push(op, OpCost::per_element, {}, {y},
               recordable([=](const KernelContext& context) { kernel(context, series, y); }));
    return y;
  }
  array_push(op, OpCost::per_element, {}, {y}, [=] {
    visit_dtype(dtype, [&]<class T>() {
      T* values = y.data<T>();
      parallel_for(num, 16384, [=](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) values[i] = Scalar(series(i)).as<T>();
      });
    });
  });
  return y;
}

}  // namespace

NDArray linspace(double start, double stop, std::int64_t num, bool endpoint, DType dtype, Device device,
                 Where where) {
  const CallSite site(where);
  const Steps steps(start, stop, num, endpoint);
  return make_series("linspace", num, dtype, device,
                     {steps, is_floating(dtype) ? Series::Kind::same : Series::Kind::floor});
}

NDArray logspace(double start, double stop, std::int64_t num, bool endpoint, double base, DType dtype,
                 Device device, Where where) {
  const CallSite site(where);
  const Steps exponent(start, stop, num, endpoint);
  return make_series("logspace", num, dtype, device, {exponent, Series::Kind::power, base});
}

NDArray full_like(const NDArray& x, Scalar value, Where where) {
  const CallSite site(where);
  check_arrays("full_like", {&x});
  NDArray y = make_result(x, x.shape(), x.dtype());
  y.fill(value);
  return y;
}

NDArray ones_like(const NDArray& x, Where where) {
  const CallSite site(where);
  check_arrays("ones_like", {&x});
  return full_like(x, 1);
}

NDArray empty_like(const NDArray& x, Where where) {
  const CallSite site(where);
  check_arrays("empty_like", {&x});
  return make_result(x, x.shape(), x.dtype());
}

HEDDLE_OPERATORS(creation) {
  table.family("Creation");
  const Argument num = {"num", 50}, endpoint = {"endpoint", true}, dtype = {"dtype", DType::f32},
                 device = {"device", cpu()};
  table.add("full_like", full_like,
            {.documentation = "An array of `fill_value` with the shape, dtype and device of x.",
             .arguments = {"x", "fill_value"},
             .result = "that of x"});
  table.add("ones_like", ones_like,
            {.documentation = "An array of 1 with the shape, dtype and device of x.",
             .arguments = {"x"},
             .result = "that of x"});
  table.add("linspace", linspace,
            {.documentation = "`num` numbers with equal steps from start to stop, or up to before stop "
                              "without `endpoint`.",
             .arguments = {"start", "stop", num, endpoint, dtype, device},
             .result = "`dtype`"});
  table.add("logspace", logspace,
            {.documentation = "base to the power of `num` numbers with equal steps from start to stop.",
             .arguments = {"start", "stop", num, endpoint, {"base", 10.0}, dtype, device},
             .result = "`dtype`"});
}

}  // namespace heddle
