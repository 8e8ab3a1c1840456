#include <algorithm>
#include <cmath>

#include <heddle/array_op.h>
#include <heddle/call_site.h>
#include <heddle/parallel.h>

#include "arrays/new_array.h"
#include "dtype/convert.h"

namespace heddle {

NDArray full(Shape shape, double value, DType dtype, Device device, Where where) {
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
  return arange(0, static_cast<double>(count), 1, dtype, device, where);
}

NDArray arange(double begin, double end, double step, DType dtype, Device device, Where where) {
  const CallSite site(where);
  const double count = std::ceil((end - begin) / step);
  if (step == 0 || !std::isfinite(count) || count > 9e18) {
    throw InvalidArgument("arange: begin " + std::to_string(begin) + ", end " + std::to_string(end) +
                          ", step " + std::to_string(step) + " make no range");
  }
  const auto length = static_cast<std::int64_t>(std::max(count, 0.0));
  NDArray result = ndarray_detail::new_array("arange", {length}, dtype, device);
  array_push("arange", {}, {result}, [=] {
    visit_dtype(dtype, [&]<class T>() {
      T* values = result.data<T>();
      parallel_for(result.size(), 16384, [=](std::int64_t first, std::int64_t last) {
        for (std::int64_t i = first; i < last; ++i) {
          values[i] = ndarray_detail::convert<T>(begin + static_cast<double>(i) * step);
        }
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
  NDArray result = ndarray_detail::new_array("array", shape, dtype_of<T>, device);
  if (result.size() != static_cast<std::int64_t>(values.size())) {
    throw InvalidArgument("array: " + std::to_string(values.size()) + " values for shape " +
                          shape.to_string());
  }
  // No op uses the array yet: its memory may be written here.
  std::copy(values.begin(), values.end(), result.data<T>());
  return result;
}

template <class T> NDArray array(std::initializer_list<T> values, Device device) {
  return array(std::vector<T>(values), {static_cast<std::int64_t>(values.size())}, device);
}

template <class T> NDArray array(std::initializer_list<std::initializer_list<T>> rows, Device device) {
  std::vector<T> values;
  const std::size_t columns = rows.size() > 0 ? rows.begin()->size() : 0;
  for (const std::initializer_list<T>& row : rows) {
    if (row.size() != columns) {
      throw InvalidArgument("array: rows of " + std::to_string(columns) + " and of " +
                            std::to_string(row.size()) + " values; wanted rows of one length");
    }
    values.insert(values.end(), row.begin(), row.end());
  }
  return array(values, {static_cast<std::int64_t>(rows.size()), static_cast<std::int64_t>(columns)}, device);
}

NDArray array(std::initializer_list<double> values, Device device) {
  return array(std::vector<float>(values.begin(), values.end()), {static_cast<std::int64_t>(values.size())},
               device);
}

NDArray array(std::initializer_list<std::initializer_list<double>> rows, Device device) {
  return array<double>(rows, device).astype(DType::f32);
}

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

template NDArray array(std::initializer_list<float>, Device);
template NDArray array(std::initializer_list<double>, Device);
template NDArray array(std::initializer_list<std::int32_t>, Device);
template NDArray array(std::initializer_list<std::int64_t>, Device);
template NDArray array(std::initializer_list<std::uint8_t>, Device);
template NDArray array(std::initializer_list<bool>, Device);
template NDArray array(std::initializer_list<Float16>, Device);
template NDArray array(std::initializer_list<BFloat16>, Device);
template NDArray array(std::initializer_list<std::int8_t>, Device);
template NDArray array(std::initializer_list<std::int16_t>, Device);
template NDArray array(std::initializer_list<std::uint16_t>, Device);
template NDArray array(std::initializer_list<std::uint32_t>, Device);
template NDArray array(std::initializer_list<std::uint64_t>, Device);

template NDArray array(std::initializer_list<std::initializer_list<float>>, Device);
template NDArray array(std::initializer_list<std::initializer_list<double>>, Device);
template NDArray array(std::initializer_list<std::initializer_list<std::int32_t>>, Device);
template NDArray array(std::initializer_list<std::initializer_list<std::int64_t>>, Device);
template NDArray array(std::initializer_list<std::initializer_list<std::uint8_t>>, Device);
template NDArray array(std::initializer_list<std::initializer_list<bool>>, Device);
template NDArray array(std::initializer_list<std::initializer_list<Float16>>, Device);
template NDArray array(std::initializer_list<std::initializer_list<BFloat16>>, Device);
template NDArray array(std::initializer_list<std::initializer_list<std::int8_t>>, Device);
template NDArray array(std::initializer_list<std::initializer_list<std::int16_t>>, Device);
template NDArray array(std::initializer_list<std::initializer_list<std::uint16_t>>, Device);
template NDArray array(std::initializer_list<std::initializer_list<std::uint32_t>>, Device);
template NDArray array(std::initializer_list<std::initializer_list<std::uint64_t>>, Device);

}  // namespace heddle
