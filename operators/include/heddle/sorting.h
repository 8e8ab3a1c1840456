// Operators that sort and search. NaN counts as the largest number: it comes last, in descending order first. An axis that
// is not given means the flattened array. Bad axes and ranks throw InvalidArgument at the call. Values get gradients.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include <heddle/elementwise.h>

namespace heddle {

NDArray sort(const NDArray& x, std::optional<int> axis = -1, bool descending = false,
             Where where = Where::current());
// i64: where the elements of sort() stand. Equal ones stay in their order.
NDArray argsort(const NDArray& x, std::optional<int> axis = -1, bool descending = false,
                Where where = Where::current());

// The k largest, or smallest, elements along an axis, in order, and their indices; of equal ones the first.
std::array<NDArray, 2> topk(const NDArray& x, std::int64_t k, int axis = -1, bool largest = true,
                            Where where = Where::current());
// The k-th smallest element along an axis, from 1, and its index.
std::array<NDArray, 2> kthvalue(const NDArray& x, std::int64_t k, int axis = -1, bool keepdims = false,
                                Where where = Where::current());

// Along axes, none given: all. In floating point: f64 for an integer or bool x, else x's dtype. NaN if any element is.
// quantile: between the two elements at place q * (n - 1) in proportion; the axes of q come first. Throws InvalidArgument
// for a q that is a number outside [0, 1], and for nothing to choose from; q in an array is an op error.
NDArray median(const NDArray& x, Dims axes = {}, bool keepdims = false, Where where = Where::current());
NDArray quantile(const NDArray& x, const Operand& q, Dims axes = {}, bool keepdims = false,
                 Where where = Where::current());

// i64, of values' shape: where each would have to be inserted into `sorted`, which has one axis and rises, before equal
// elements or with `right` behind them.
NDArray searchsorted(const NDArray& sorted, const NDArray& values, bool right = false,
                     Where where = Where::current());
// bool, of x's shape: which elements are, or with `invert` are not, among the others.
NDArray isin(const NDArray& x, const NDArray& elements, bool invert = false, Where where = Where::current());

// i64 (bins) and the bins + 1 edges: how many elements are in bins of one width from low to high, without them from the
// smallest to the largest element. The last edge belongs to the last bin; NaN and what is outside is in none.
std::array<NDArray, 2> histogram(const NDArray& x, std::int64_t bins = 10, std::optional<double> low = {},
                                 std::optional<double> high = {}, Where where = Where::current());

// The following wait for x, since the shape of the result depends on values.
// The distinct elements of the flattened array in rising order.
NDArray unique(const NDArray& x, bool equal_nan = true, Where where = Where::current());
// And the index of the first of each, i64; which of them each element of x is, i64 of x's shape; how often each comes, i64.
std::array<NDArray, 4> unique_all(const NDArray& x, bool equal_nan = true, Where where = Where::current());
// How often each of 0, 1, 2, ... comes in x (integers without negative ones, one axis), i64; or the sums of the weights
// that stand there, f64. As long as the largest element needs, and `minlength` at least.
NDArray bincount(const NDArray& x, const NDArray& weights = {}, std::int64_t minlength = 0,
                 Where where = Where::current());

}  // namespace heddle
