// Arrays of numbers that stand in the program: array({{1, 2}, {3, 4}}).
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <type_traits>
#include <vector>

#include <heddle/array_creation.h>

namespace heddle {

namespace ndarray_detail {
template <class T, class... Types> inline constexpr bool is_one_of = (std::is_same_v<T, Types> || ...);
template <class T>
inline constexpr bool is_element =
    is_one_of<T, float, std::int32_t, std::int64_t, std::uint8_t, bool, Float16, BFloat16, std::int8_t,
              std::int16_t, std::uint16_t, std::uint32_t, std::uint64_t>;
template <class T>
concept ListElement = is_element<T> || std::integral<T>;
template <std::size_t bytes>
using Signed = std::conditional_t<
    bytes == 1, std::int8_t,
    std::conditional_t<bytes == 2, std::int16_t, std::conditional_t<bytes == 4, std::int32_t, std::int64_t>>>;
// The element type for an integer type: for long long, char and the like, the type of the same size and sign.
template <ListElement T>
using Named = std::conditional_t<
    is_element<T>, T,
    std::conditional_t<std::is_signed_v<T>, Signed<sizeof(T)>, std::make_unsigned_t<Signed<sizeof(T)>>>>;
template <class T> using List = std::initializer_list<T>;
template <class T> using Blocks = List<List<List<T>>>;
struct ThreeLevelsAtMostThenViewAs;  // never defined; compile errors show its name
[[noreturn]] void refuse_rows(std::size_t columns, std::size_t size);

// Appends the length of each level's first list, up to an empty one, as in NumPy: {{}, {}} has shape (2, 0).
template <class T> void add_axes(Shape& shape, List<T> list) { shape.push_back(std::ssize(list)); }
template <class T> void add_axes(Shape& shape, List<List<T>> lists) {
  shape.push_back(std::ssize(lists));
  if (lists.size() > 0) add_axes(shape, *lists.begin());
}
template <class T> Shape shape_of(List<T> list) {
  Shape shape;
  add_axes(shape, list);
  return shape;
}

// Throws InvalidArgument unless list, of level `axis`, is as long as the first list of that level.
template <class T> void check_length(const Shape& shape, int axis, List<T> list) {
  if (std::ssize(list) != shape[axis]) refuse_rows(static_cast<std::size_t>(shape[axis]), list.size());
}
template <class To, class T>
void append(std::vector<To>& values, List<T> list, const Shape& shape, int axis) {
  check_length(shape, axis, list);
  values.insert(values.end(), list.begin(), list.end());
}
template <class To, class T>
void append(std::vector<To>& values, List<List<T>> lists, const Shape& shape, int axis) {
  check_length(shape, axis, lists);
  for (const List<T>& list : lists) append(values, list, shape, axis + 1);
}
template <class To, class T> std::vector<To> values_in(List<T> list, const Shape& shape) {
  std::vector<To> values;
  append(values, list, shape, 0);
  return values;
}

// The array that holds `list` as elements of type T.
template <class T, class Nested> NDArray array_of(Nested list, Device device) {
  const Shape shape = shape_of(list);
  return array(values_in<T>(list, shape), shape, device);
}
}  // namespace ndarray_detail

// array(1) has no axis, array({1, 2}) one, array({{1, 2}, {3, 4}}) rows of one length, and lists of those
// three. The dtype is that of the C++ type, but literals such as 1.5 make the default, f32:
// array<double>({1.5}) makes f64. Numbers of several types make f32 if one is floating, else i64, or u64 if
// needed. std::initializer_list is written out where T is deduced: Clang deduces nothing through an alias.
template <ndarray_detail::ListElement T>
NDArray array(std::initializer_list<T> values, Device device = cpu()) {
  return ndarray_detail::array_of<ndarray_detail::Named<T>>(values, device);
}
template <ndarray_detail::ListElement T>
NDArray array(std::initializer_list<std::initializer_list<T>> rows, Device device = cpu()) {
  return ndarray_detail::array_of<ndarray_detail::Named<T>>(rows, device);
}
template <ndarray_detail::ListElement T>
NDArray array(std::initializer_list<std::initializer_list<std::initializer_list<T>>> blocks,
              Device device = cpu()) {
  return ndarray_detail::array_of<ndarray_detail::Named<T>>(blocks, device);
}
template <ndarray_detail::ListElement T> NDArray array(T value, Device device = cpu()) {
  using Element = ndarray_detail::Named<T>;
  return array(std::vector<Element>{static_cast<Element>(value)}, {}, device);
}
template <int = 0, std::same_as<double> T> NDArray array(std::initializer_list<T> values) {
  return ndarray_detail::array_of<float>(values, cpu());
}
template <int = 0, std::same_as<double> T> NDArray array(std::initializer_list<T> values, Device device) {
  return ndarray_detail::array_of<float>(values, device);
}
template <int = 0, std::same_as<double> T>
NDArray array(std::initializer_list<std::initializer_list<T>> rows) {
  return ndarray_detail::array_of<float>(rows, cpu());
}
template <int = 0, std::same_as<double> T>
NDArray array(std::initializer_list<std::initializer_list<T>> rows, Device device) {
  return ndarray_detail::array_of<float>(rows, device);
}
template <int = 0, std::same_as<double> T>
NDArray array(std::initializer_list<std::initializer_list<std::initializer_list<T>>> blocks) {
  return ndarray_detail::array_of<float>(blocks, cpu());
}
template <int = 0, std::same_as<double> T>
NDArray array(std::initializer_list<std::initializer_list<std::initializer_list<T>>> blocks, Device device) {
  return ndarray_detail::array_of<float>(blocks, device);
}
template <int = 0, std::same_as<double> T> NDArray array(T value, Device device = cpu()) {
  return array(static_cast<float>(value), device);
}
// For an explicit T. If T is deduced, the overloads above win, since the ones below end in a pack.
template <std::same_as<double> T, std::convertible_to<Device>... Place>
NDArray array(std::initializer_list<T> values, Place... device) {
  return ndarray_detail::array_of<double>(values, Device(device...));
}
template <std::same_as<double> T, std::convertible_to<Device>... Place>
NDArray array(std::initializer_list<std::initializer_list<T>> rows, Place... device) {
  return ndarray_detail::array_of<double>(rows, Device(device...));
}
template <std::same_as<double> T, std::convertible_to<Device>... Place>
NDArray array(std::initializer_list<std::initializer_list<std::initializer_list<T>>> blocks,
              Place... device) {
  return ndarray_detail::array_of<double>(blocks, Device(device...));
}
template <std::same_as<double> T> NDArray array(std::type_identity_t<T> value, Device device = cpu()) {
  return array(std::vector<double>{value}, {}, device);
}
NDArray array(std::initializer_list<Scalar> values, Device device = cpu());
NDArray array(std::initializer_list<std::initializer_list<Scalar>> rows, Device device = cpu());
NDArray array(ndarray_detail::Blocks<Scalar> blocks, Device device = cpu());
template <class = void, class T>
ndarray_detail::ThreeLevelsAtMostThenViewAs array(
    std::initializer_list<std::initializer_list<std::initializer_list<std::initializer_list<T>>>>,
    Device = cpu()) = delete;
ndarray_detail::ThreeLevelsAtMostThenViewAs array(std::initializer_list<ndarray_detail::Blocks<Scalar>>,
                                                  Device = cpu()) = delete;

}  // namespace heddle
