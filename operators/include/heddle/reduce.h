// Operators that reduce axes.
//
// `axes` may be negative and in any order; empty means all axes. With keepdims the reduced axes stay, with
// size 1. Axes out of range or given twice throw InvalidArgument at the call. Sums are made in a fixed order,
// f32 sums in f64, so that they do not depend on the number of workers.
#pragma once

#include <concepts>
#include <optional>

#include <heddle/elementwise.h>

namespace heddle {

// The dtype is i64 for integers and bool, u64 for unsigned ones, else x's. The sum of no elements is 0.
NDArray sum(const NDArray& x, Dims axes = {}, bool keepdims = false, Where where = Where::current());

// The dtype is f64 for integers and bool, else x's. The mean of no elements is NaN.
NDArray mean(const NDArray& x, Dims axes = {}, bool keepdims = false, Where where = Where::current());

// The result has the dtype of x, and is NaN if any element is NaN. All elements equal to the maximum
// (minimum) share the gradient equally. Throws InvalidArgument at the call if a reduced axis is empty.
NDArray max(const NDArray& x, Dims axes = {}, bool keepdims = false, Where where = Where::current());
NDArray min(const NDArray& x, Dims axes = {}, bool keepdims = false, Where where = Where::current());
// max(a, b) and min(a, b) are maximum() and minimum() of two arrays, or of an array and a floating number. An
// integer as second argument is an axis: max(x, 0).
template <class Other>
requires std::same_as<Other, NDArray> || std::floating_point<Other> NDArray
max(const NDArray& a, const Other& b, Where where = Where::current()) {
  return maximum(a, b, where);
}
template <class Other>
requires std::same_as<Other, NDArray> || std::floating_point<Other> NDArray
min(const NDArray& a, const Other& b, Where where = Where::current()) {
  return minimum(a, b, where);
}

template <std::floating_point T> NDArray max(T a, const NDArray& b, Where where = Where::current()) {
  return maximum(a, b, where);
}
template <std::floating_point T> NDArray min(T a, const NDArray& b, Where where = Where::current()) {
  return minimum(a, b, where);
}

// The first index (i64) of the largest (smallest) element along `axis`, which is removed; without an axis, in
// the flattened array. A NaN counts as the largest (smallest).
NDArray argmax(const NDArray& x, std::optional<int> axis = {}, Where where = Where::current());
NDArray argmin(const NDArray& x, std::optional<int> axis = {}, Where where = Where::current());

}  // namespace heddle
