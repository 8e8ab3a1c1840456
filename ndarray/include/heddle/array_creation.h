// Functions that make arrays. Errors of shapes throw InvalidArgument at the call.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include <heddle/ndarray.h>

namespace heddle {

NDArray full(Shape shape, double value, DType dtype = DType::f32, Device device = cpu(),
             Where where = Where::current());
template <std::integral T>
NDArray full(Shape shape, T value, DType dtype = DType::f32, Device device = cpu(),
             Where where = Where::current()) {
  const CallSite site(where);
  NDArray result = ndarray_detail::in_name_of("full", [&] { return NDArray(shape, dtype, device); });
  result.fill(value, where);
  return result;
}
NDArray zeros(Shape shape, DType dtype = DType::f32, Device device = cpu(), Where where = Where::current());
NDArray ones(Shape shape, DType dtype = DType::f32, Device device = cpu(), Where where = Where::current());
NDArray zeros_like(const NDArray& other, Where where = Where::current());
NDArray arange(std::int64_t count, DType dtype = DType::f32, Device device = cpu(),
               Where where = Where::current());
NDArray arange(double begin, double end, double step = 1, DType dtype = DType::f32, Device device = cpu(),
               Where where = Where::current());
NDArray eye(std::int64_t n, DType dtype = DType::f32, Device device = cpu(), Where where = Where::current());

// A new array with a copy of `values` (row-major, as many as the shape holds). T is the C++ type of a dtype.
template <class T> NDArray array(const std::vector<T>& values, Shape shape, Device device = cpu());
template <class T> NDArray array(std::initializer_list<T> values, Device device = cpu());  // one-dimensional
// Rows of one length: array({{1, 2}, {3, 4}}).
template <class T> NDArray array(std::initializer_list<std::initializer_list<T>> rows, Device device = cpu());
// Literals such as 1.5 make f32, the dtype that arrays have unless told; array<double>({1.5}) makes f64.
NDArray array(std::initializer_list<double> values, Device device = cpu());
NDArray array(std::initializer_list<std::initializer_list<double>> rows, Device device = cpu());

}  // namespace heddle
