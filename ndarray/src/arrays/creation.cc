#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <string>
#include <type_traits>

#include <heddle/array_op.h>
#include <heddle/call_site.h>
#include <heddle/number_text.h>
#include <heddle/parallel.h>

#include "arrays/gpu_copy.h"
#include "arrays/new_array.h"
#include "dtype/convert.h"

namespace heddle {

namespace {

// An integer type that holds the difference of any two 64-bit integers.
__extension__ using Wide = __int128;

bool is_whole(Scalar value) { return value.is_integral() || value.is_huge(); }
Wide wide(Scalar value) {
  return value.is_huge() ? Wide{value.as<std::uint64_t>()} : Wide{value.as<std::int64_t>()};
}

// The number of elements of arange().
std::int64_t range_length(Scalar begin, Scalar end, Scalar step) {
  double count = std::ceil((end.real() - begin.real()) / step.real());
  if (step.real() == 0 || !std::isfinite(count) || count > 9e18) {
    // The message does not name begin and end, which are called start and stop in Python.
    throw InvalidArgument("arange: from " + begin.to_string() + " to before " + end.to_string() +
                          ", where step is " + step.to_string() +
                          "; wanted finite numbers, a step that is not 0, and at most 9e18 elements");
  }
  if (!is_whole(begin) || !is_whole(end) || !is_whole(step))
    return static_cast<std::int64_t>(std::max(count, 0.0));
  const Wide span = wide(end) - wide(begin), by = wide(step);
  const Wide whole = span / by + (span % by != 0 && (span > 0) == (by > 0) ? 1 : 0);
  return static_cast<std::int64_t>(std::max(whole, Wide{0}));
}

// Whether T represents all numbers of a range exactly, as integers.
template <class T> bool fits_exactly(Scalar begin, Scalar step, std::int64_t length) {
  if constexpr (!std::is_integral_v<T> || std::is_same_v<T, bool>) {
    return false;
  } else {
    if (!is_whole(begin) || !is_whole(step) || length == 0) return false;
    const auto fits = [](Wide value) {
      return value >= Wide{std::numeric_limits<T>::min()} && value <= Wide{std::numeric_limits<T>::max()};
    };
    return fits(wide(begin)) && fits(wide(begin) + wide(step) * (length - 1));
  }
}

template <class T>
void write_integers(T* values, Scalar begin, Scalar step, std::int64_t first, std::int64_t last) {
  if constexpr (std::is_integral_v<T>) {
    const auto from = static_cast<std::uint64_t>(wide(begin)), by = static_cast<std::uint64_t>(wide(step));
    for (std::int64_t i = first; i < last; ++i)
      values[i] = static_cast<T>(from + static_cast<std::uint64_t>(i) * by);
  }
}

}  // namespace

NDArray full(Shape shape, Scalar value, DType dtype, Device device, Where where) {
  const CallSite site(where);
  NDArray result = ndarray_detail::new_array("full", shape, dtype, device);
  result.fill(value, where);
  return result;
}

NDArray zeros(Shape shape, DType dtype, Device device, Where where) {
  const CallSite site(where);
  return ndarray_detail::in_name_of("zeros", [&] { return full(shape, 0, dtype, device, where); });
}

NDArray ones(Shape shape, DType dtype, Device device, Where where) {
  const CallSite site(where);
  return ndarray_detail::in_name_of("ones", [&] { return full(shape, 1, dtype, device, where); });
}

NDArray zeros_like(const NDArray& other, Where where) {
  const CallSite site(where);
  if (!other.defined()) ndarray_detail::refuse_undefined("zeros_like");
  EngineScope scope(other.engine());
  return zeros(other.shape(), other.dtype(), other.device(), where);
}

NDArray arange(std::int64_t count, DType dtype, Device device, Where where) {
  return arange(Scalar(0), count, 1, dtype, device, where);
}

NDArray arange(Scalar begin, Scalar end, Scalar step, DType dtype, Device device, Where where) {
  const CallSite site(where);
  const std::int64_t length = range_length(begin, end, step);
  NDArray result = ndarray_detail::new_array("arange", {length}, dtype, device);
  if (ndarray_detail::on_gpu(result)) [[unlikely]] {
    const bool exact = visit_dtype(dtype, [&]<class T>() { return fits_exactly<T>(begin, step, length); });
    ndarray_detail::push_gpu_range(result, begin, step, exact);
    return result;
  }
  array_push("arange", OpCost::per_element, {}, {result}, [=] {
    visit_dtype(dtype, [&]<class T>() {
      const bool exact = fits_exactly<T>(begin, step, length);
      T* values = result.data<T>();
      parallel_for(length, 16384, [=](std::int64_t first, std::int64_t last) {
        if (exact) return write_integers(values, begin, step, first, last);
        for (std::int64_t i = first; i < last; ++i)
          values[i] = ndarray_detail::convert<T>(begin.real() + static_cast<double>(i) * step.real());
      });
    });
  });
  return result;
}

NDArray eye(std::int64_t n, DType dtype, Device device, Where where) {
  const CallSite site(where);
  if (n < 0) throw InvalidArgument("eye: n is " + std::to_string(n) + "; wanted 0 or more");
  NDArray result = ndarray_detail::in_name_of("eye", [&] { return full({n, n}, 0, dtype, device); });
  result.view({n}, {n + 1}, 0).fill(1);
  return result;
}

template <class T> NDArray array(const std::vector<T>& values, Shape shape, Device device) {
  if (device.kind == DeviceKind::cuda) [[unlikely]] {
    return ndarray_detail::in_name_of("array", [&] { return array(values, shape, cpu()).copy_to(device); });
  }
  NDArray result = ndarray_detail::new_array("array", shape, dtype_of<T>, device);
  if (result.size() != static_cast<std::int64_t>(values.size())) {
    throw InvalidArgument("array: " + std::to_string(values.size()) + " values for shape " +
                          shape.to_string());
  }
  // No op uses the array yet, so its memory may be written here.
  std::copy(values.begin(), values.end(), result.data<T>());
  return result;
}

void ndarray_detail::refuse_rows(std::size_t columns, std::size_t size) {
  throw InvalidArgument("array: lists of " + std::to_string(columns) + " and of " + std::to_string(size) +
                        " values; wanted lists of one length");
}

namespace {

template <class Nested> NDArray mixed(Nested list, Device device) {
  const Shape shape = ndarray_detail::shape_of(list);
  const std::vector<Scalar> values = ndarray_detail::values_in<Scalar>(list, shape);
  const auto any = [&](auto what) { return std::any_of(values.begin(), values.end(), what); };
  const auto converted = [&]<class T>(T) {
    std::vector<T> result;
    for (const Scalar& value : values) result.push_back(value.as<T>());
    return array(result, shape, device);
  };
  if (any([](const Scalar& value) { return !value.is_integral() && !value.is_huge(); }))
    return converted(0.0F);
  if (any([](const Scalar& value) { return value.is_huge(); })) {
    if (any([](const Scalar& value) { return value.is_integral() && value.as<std::int64_t>() < 0; }))
      throw InvalidArgument(
          "array: negative integers and some above 2^63 - 1, which no integer dtype has all");
    return converted(std::uint64_t{0});
  }
  return converted(std::int64_t{0});
}

}  // namespace

NDArray array(std::initializer_list<Scalar> values, Device device) { return mixed(values, device); }
NDArray array(std::initializer_list<std::initializer_list<Scalar>> rows, Device device) {
  return mixed(rows, device);
}
NDArray array(ndarray_detail::Blocks<Scalar> blocks, Device device) { return mixed(blocks, device); }

template NDArray array(const std::vector<float>&, Shape, Device);
template NDArray array(const std::vector<double>&, Shape, Device);
template NDArray array(const std::vector<std::int32_t>&, Shape, Device);
template NDArray array(const std::vector<std::int64_t>&, Shape, Device);
template NDArray array(const std::vector<std::uint8_t>&, Shape, Device);
template NDArray array(const std::vector<bool>&, Shape, Device);
template NDArray array(const std::vector<Float16>&, Shape, Device);
template NDArray array(const std::vector<BFloat16>&, Shape, Device);
template NDArray array(const std::vector<std::int8_t>&, Shape, Device);
template NDArray array(const std::vector<std::int16_t>&, Shape, Device);
template NDArray array(const std::vector<std::uint16_t>&, Shape, Device);
template NDArray array(const std::vector<std::uint32_t>&, Shape, Device);
template NDArray array(const std::vector<std::uint64_t>&, Shape, Device);

}  // namespace heddle
