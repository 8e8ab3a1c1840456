// Shapes and strides: up to eight 64-bit numbers.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <span>
#include <string>

namespace heddle {

inline constexpr int kMaxDims = 8;

namespace ndarray_detail {
// An integer type that can stand for a number of entries, for an axis or for an index.
template <class T>
concept Size = std::integral<T> && !std::same_as<T, bool>;
}  // namespace ndarray_detail

// A short list of 64-bit numbers: a shape (all >= 0; no dimension: a scalar), strides in elements, axes, indices.
class Dims {
 public:
  Dims() = default;
  Dims(std::initializer_list<std::int64_t> values);  // throws InvalidArgument for more than kMaxDims numbers
  // A list of one number, so that zeros(3) and sum(x, 0) compile.
  template <ndarray_detail::Size T> Dims(T value) : Dims({static_cast<std::int64_t>(value)}) {}
  // Throws InvalidArgument for more than kMaxDims numbers.
  explicit Dims(std::span<const std::int64_t> values);
  static Dims filled(int count, std::int64_t value);  // `value`, `count` times

  int size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::int64_t operator[](int i) const { return values_[static_cast<std::size_t>(i)]; }
  std::int64_t& operator[](int i) { return values_[static_cast<std::size_t>(i)]; }
  const std::int64_t* begin() const { return values_.data(); }
  const std::int64_t* end() const { return values_.data() + size_; }
  void push_back(std::int64_t value);  // throws InvalidArgument for more than kMaxDims numbers
  bool operator==(const Dims& other) const;
  std::string to_string() const;  // "(2, 3)"; one number: "(2,)"

 private:
  std::array<std::int64_t, kMaxDims> values_{};
  int size_ = 0;
};
using Shape = Dims;
using Strides = Dims;

// Throws InvalidArgument for a negative dimension, and past 2^63-1 elements.
std::int64_t element_count(const Shape& shape);
Strides contiguous_strides(const Shape& shape);          // row-major
Shape broadcast_shapes(const Shape& a, const Shape& b);  // NumPy's rule; throws InvalidArgument naming both
int normalize_axis(std::int64_t axis, int ndim);  // -1 is the last axis; throws InvalidArgument out of range
std::ostream& operator<<(std::ostream& out, const Dims& dims);

namespace ndarray_detail {
// The axis of an array of `shape`; -1 is the last. Throws InvalidArgument that names the function `name` and the shape.
int axis_of(const char* name, std::int64_t axis, const Shape& shape);
}  // namespace ndarray_detail

}  // namespace heddle
