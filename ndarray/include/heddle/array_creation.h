// Functions that make arrays. Errors of shapes throw InvalidArgument at the call.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <type_traits>
#include <vector>

#include <heddle/ndarray.h>
#include <heddle/scalar.h>

namespace heddle {

namespace ndarray_detail {
template <class T, class... Types> inline constexpr bool is_one_of = (std::is_same_v<T, Types> || ...);
template <class T>
concept ListElement = is_one_of<T, float, std::int32_t, std::int64_t, std::uint8_t, bool, Float16, BFloat16,
                                std::int8_t, std::int16_t, std::uint16_t, std::uint32_t, std::uint64_t>;
// The other names of integers, such as long long and char: of the dtype with the same size and sign.
template <class T>
concept OtherInteger = std::integral<T> && !ListElement<T>;
template <std::size_t bytes>
using Signed = std::conditional_t<
    bytes == 1, std::int8_t,
    std::conditional_t<bytes == 2, std::int16_t, std::conditional_t<bytes == 4, std::int32_t, std::int64_t>>>;
template <OtherInteger T>
using Named =
    std::conditional_t<std::is_signed_v<T>, Signed<sizeof(T)>, std::make_unsigned_t<Signed<sizeof(T)>>>;
template <class T> using List = std::initializer_list<T>;
template <class T> using Rows = List<List<T>>;
[[noreturn]] void refuse_rows(std::size_t columns, std::size_t size);

template <class T> std::vector<T> values_in(Rows<T> rows) {
  std::vector<T> values;
  for (const List<T>& row : rows) {
    if (row.size() != rows.begin()->size()) refuse_rows(rows.begin()->size(), row.size());
    values.insert(values.end(), row.begin(), row.end());
  }
  return values;
}
template <class T> Shape shape_of(Rows<T> rows) {
  return {std::ssize(rows), rows.size() > 0 ? std::ssize(*rows.begin()) : 0};
}
}  // namespace ndarray_detail

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
// begin, begin + step, ... before end; exact where all three are integers.
NDArray arange(Scalar begin, Scalar end, Scalar step = 1, DType dtype = DType::f32, Device device = cpu(),
               Where where = Where::current());
NDArray eye(std::int64_t n, DType dtype = DType::f32, Device device = cpu(), Where where = Where::current());

// A new array with a copy of `values` (row-major, as many as the shape holds). T is the C++ type of a dtype.
template <class T> NDArray array(const std::vector<T>& values, Shape shape, Device device = cpu());

// array({1, 2}) has one axis, array({{1, 2}, {3, 4}}) rows of one length. The dtype is that of the C++ type, but literals
// such as 1.5 make f32, the dtype that arrays have unless told: array<double>({1.5}) makes f64. Numbers of several types
// make f32 if one is floating, else i64, or u64 if one needs it.
template <ndarray_detail::ListElement T>
NDArray array(std::initializer_list<T> values, Device device = cpu()) {
  return array(std::vector<T>(values), {std::ssize(values)}, device);
}
template <ndarray_detail::ListElement T>
NDArray array(std::initializer_list<std::initializer_list<T>> rows, Device device = cpu()) {
  return array(ndarray_detail::values_in(rows), ndarray_detail::shape_of(rows), device);
}
template <ndarray_detail::OtherInteger T>
NDArray array(std::initializer_list<T> values, Device device = cpu()) {
  using Element = ndarray_detail::Named<T>;
  return array(std::vector<Element>(values.begin(), values.end()), {std::ssize(values)}, device);
}
template <int = 0, std::same_as<double> T>
NDArray array(std::initializer_list<T> values, Device device = cpu()) {
  return array(std::vector<float>(values.begin(), values.end()), {std::ssize(values)}, device);
}
template <int = 0, std::same_as<double> T>
NDArray array(std::initializer_list<std::initializer_list<T>> rows, Device device = cpu()) {
  const std::vector<double> values = ndarray_detail::values_in(rows);
  return array(std::vector<float>(values.begin(), values.end()), ndarray_detail::shape_of(rows), device);
}
template <std::same_as<double> T>
NDArray array(std::type_identity_t<ndarray_detail::List<T>> values, Device device = cpu()) {
  return array(std::vector<double>(values), {std::ssize(values)}, device);
}
template <std::same_as<double> T>
NDArray array(std::type_identity_t<ndarray_detail::Rows<T>> rows, Device device = cpu()) {
  return array(ndarray_detail::values_in(rows), ndarray_detail::shape_of(rows), device);
}
NDArray array(std::initializer_list<Scalar> values, Device device = cpu());
NDArray array(std::initializer_list<std::initializer_list<Scalar>> rows, Device device = cpu());

}  // namespace heddle
