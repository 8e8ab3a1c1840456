// Operators that sort and search. NaN counts as the largest number: it comes last, in descending order first.
// Without an axis, functions work on the flattened array. Bad axes and ranks throw InvalidArgument at the
// call. Values get gradients.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include <heddle/elementwise.h>

namespace heddle {

NDArray sort(const NDArray& x, std::optional<int> axis = -1, bool descending = false,
             Where where = Where::current());
// The indices (i64) of the elements of sort(). Equal elements keep their order.
NDArray argsort(const NDArray& x, std::optional<int> axis = -1, bool descending = false,
                Where where = Where::current());

// The k largest, or smallest, elements along an axis, in order, and their indices. Of equal elements the
// first ones are taken.
std::array<NDArray, 2> topk(const NDArray& x, std::int64_t k, int axis = -1, bool largest = true,
                            Where where = Where::current());
// The k-th smallest element along an axis, counted from 1, and its index.
std::array<NDArray, 2> kthvalue(const NDArray& x, std::int64_t k, int axis = -1, bool keepdims = false,
                                Where where = Where::current());

// median and quantile reduce `axes`; empty: all. In floating point: f64 for an integer or bool x, else x's
// dtype. NaN if any element is NaN. quantile interpolates between the two sorted elements around index
// q * (n - 1); the axes of q come first. Throws InvalidArgument for a number q outside [0, 1], and for no
// elements; q out of range in an array is an op error.
NDArray median(const NDArray& x, Dims axes = {}, bool keepdims = false, Where where = Where::current());
NDArray quantile(const NDArray& x, const Operand& q, Dims axes = {}, bool keepdims = false,
                 Where where = Where::current());

// The index (i64, in values' shape) at which each value would be inserted into `sorted`, which has one axis
// and rises: before equal elements, or with `right` behind them.
NDArray searchsorted(const NDArray& sorted, const NDArray& values, bool right = false,
                     Where where = Where::current());
// Whether each element of x is, or with `invert` is not, among `elements`: bool, in x's shape.
NDArray isin(const NDArray& x, const NDArray& elements, bool invert = false, Where where = Where::current());

// {counts (bins, i64), the bins + 1 edges}: the number of elements in bins of equal width from low to high,
// by default from the smallest to the largest element. The last edge belongs to the last bin; NaN and
// elements outside are in no bin.
std::array<NDArray, 2> histogram(const NDArray& x, std::int64_t bins = 10, std::optional<double> low = {},
                                 std::optional<double> high = {}, Where where = Where::current());

// The functions from here on wait for x, since the shape of the result depends on values. unique: the
// distinct elements of the flattened array in ascending order.
NDArray unique(const NDArray& x, bool equal_nan = true, Where where = Where::current());
// {values, first, inverse, counts}, the last three i64: unique(x); the index in x of the first occurrence of
// each value; for each element of x, in the shape of x, the index of its value in `values`; and how often
// each value occurs.
std::array<NDArray, 4> unique_all(const NDArray& x, bool equal_nan = true, Where where = Where::current());
// The number of occurrences of each of 0, 1, 2, ... in x (integers without negative ones, one axis), i64.
// With weights it returns the sums of the weights of these occurrences, f64. The length is that of the
// largest element, at least `minlength`.
NDArray bincount(const NDArray& x, const NDArray& weights = {}, std::int64_t minlength = 0,
                 Where where = Where::current());

}  // namespace heddle
