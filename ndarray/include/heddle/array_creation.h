// Functions that make arrays. Errors of shapes throw InvalidArgument at the call.
#pragma once

#include <cstdint>
#include <vector>

#include <heddle/ndarray.h>
#include <heddle/scalar.h>

namespace heddle {

NDArray full(Shape shape, Scalar value, DType dtype = DType::f32, Device device = cpu(),
             Where where = Where::current());
NDArray zeros(Shape shape, DType dtype = DType::f32, Device device = cpu(), Where where = Where::current());
NDArray ones(Shape shape, DType dtype = DType::f32, Device device = cpu(), Where where = Where::current());
template <ndarray_detail::Size... Sizes>
requires(sizeof...(Sizes) > 0) NDArray zeros(Index first, Sizes... rest) {  // zeros(2, 3)
  return zeros({first.value, static_cast<std::int64_t>(rest)...}, DType::f32, cpu(), first.where);
}
template <ndarray_detail::Size... Sizes>
requires(sizeof...(Sizes) > 0) NDArray ones(Index first, Sizes... rest) {
  return ones({first.value, static_cast<std::int64_t>(rest)...}, DType::f32, cpu(), first.where);
}
NDArray zeros_like(const NDArray& other, Where where = Where::current());
NDArray arange(std::int64_t count, DType dtype = DType::f32, Device device = cpu(),
               Where where = Where::current());
// The numbers begin, begin + step, ... before end; exact if all three arguments are integers.
NDArray arange(Scalar begin, Scalar end, Scalar step = 1, DType dtype = DType::f32, Device device = cpu(),
               Where where = Where::current());
// A matrix (n, n) with 1 on the diagonal, 0 elsewhere.
NDArray eye(std::int64_t n, DType dtype = DType::f32, Device device = cpu(), Where where = Where::current());

// Makes an array with a copy of `values` (row-major, as many as the shape holds). T is the C++ type of a
// dtype.
template <class T> NDArray array(const std::vector<T>& values, Shape shape, Device device = cpu());

}  // namespace heddle

#include <heddle/array_literals.h>
