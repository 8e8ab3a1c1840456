// More operators that rearrange elements: parts, orders of axes and of elements, repetition. A result is a view where no
// element moves ("views"). All record gradients. Bad axes, sizes and shapes throw InvalidArgument at the call.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <vector>

#include <heddle/ndarray.h>
#include <heddle/scalar.h>

namespace heddle {

namespace operators_detail {
std::vector<NDArray> split_equally(const NDArray& x, std::int64_t sections, int axis, Where where);
NDArray repeat_all(const NDArray& x, std::int64_t repeats, std::optional<int> axis, Where where);
}  // namespace operators_detail

// Splits x along an axis into views: into `sections` equal parts, or at indices, as in split(x, {1, 3}).
// Indices may be negative and are clamped as in a slice.
std::vector<NDArray> split(const NDArray& x, const std::vector<std::int64_t>& indices, int axis = 0,
                           Where where = Where::current());
template <std::integral T>  // a template, so that the argument {1} selects the overload for a list
std::vector<NDArray> split(const NDArray& x, T sections, int axis = 0, Where where = Where::current()) {
  return operators_detail::split_equally(x, static_cast<std::int64_t>(sections), axis, where);
}
// Views of x: at most `chunks` parts of the same size, of which the last one may be smaller.
std::vector<NDArray> chunk(const NDArray& x, std::int64_t chunks, int axis = 0,
                           Where where = Where::current());
// Views of the entries of x along an axis; the views do not have that axis.
std::vector<NDArray> unstack(const NDArray& x, int axis = 0, Where where = Where::current());

// A view with two axes exchanged. The results from here to diagonal() are views, except that of block().
NDArray swapaxes(const NDArray& x, int axis1, int axis2, Where where = Where::current());
// Axis source[i] becomes axis destination[i]; the other axes keep their order.
NDArray moveaxis(const NDArray& x, Dims source, Dims destination, Where where = Where::current());
NDArray flip(const NDArray& x, Dims axes = {}, Where where = Where::current());  // empty axes: flips all axes
// Rotates by k quarter turns from the first of the two axes to the second.
NDArray rot90(const NDArray& x, std::int64_t k = 1, Dims axes = {0, 1}, Where where = Where::current());
// atleast_1d() and the next two functions add axes of size 1 in front; but atleast_3d() makes (1, n, 1) of
// (n), and (m, n, 1) of (m, n).
NDArray atleast_1d(const NDArray& x, Where where = Where::current());
NDArray atleast_2d(const NDArray& x, Where where = Where::current());
NDArray atleast_3d(const NDArray& x, Where where = Where::current());
// The arrays, broadcast to their common shape.
std::vector<NDArray> broadcast_arrays(const std::vector<NDArray>& arrays, Where where = Where::current());
// Joins rows of arrays: the arrays of a row along the last axis, the rows along the axis before it. Arrays
// with fewer axes than the others, or than two, get axes of size 1 in front.
NDArray block(const std::vector<std::vector<NDArray>>& rows, Where where = Where::current());
// Makes a grid from arrays with one axis: array i varies along axis i; with `xy` the first two axes are
// exchanged.
std::vector<NDArray> meshgrid(const std::vector<NDArray>& arrays, bool xy = true,
                              Where where = Where::current());
// The elements x[..., i, ..., i + offset, ...] of two axes, along a new last axis which replaces the two.
NDArray diagonal(const NDArray& x, std::int64_t offset = 0, int axis1 = 0, int axis2 = 1,
                 Where where = Where::current());

// Element i moves to index i + shift, around the end; without axes, in the flattened array. The results from here on
// are copies, but diag of a matrix is a view.
NDArray roll(const NDArray& x, Dims shift, Dims axes = {}, Where where = Where::current());
// reps[i] copies one after another along axis i; the shorter of reps and the shape is extended by 1 in front.
NDArray tile(const NDArray& x, Dims reps, Where where = Where::current());
// repeat(x, n) repeats each entry n times; with a list, entry i is repeated repeats[i] times. Without an axis
// it repeats the elements of the flattened array.
NDArray repeat(const NDArray& x, const std::vector<std::int64_t>& repeats, std::optional<int> axis = {},
               Where where = Where::current());
template <std::integral T>  // a template, so that the argument {1} selects the overload for a list
NDArray repeat(const NDArray& x, T repeats, std::optional<int> axis = {}, Where where = Where::current()) {
  return operators_detail::repeat_all(x, static_cast<std::int64_t>(repeats), axis, where);
}

// x with zeros above (tril) or below (triu) the k-th diagonal of the last two axes.
NDArray tril(const NDArray& x, std::int64_t k = 0, Where where = Where::current());
NDArray triu(const NDArray& x, std::int64_t k = 0, Where where = Where::current());
// For x with one axis, a matrix with x on its k-th diagonal and 0 elsewhere; for a matrix x, diagonal(x, k).
NDArray diag(const NDArray& x, std::int64_t k = 0, Where where = Where::current());
// The sum of diagonal(); its dtype is that of sum().
NDArray matrix_trace(const NDArray& x, std::int64_t offset = 0, int axis1 = 0, int axis2 = 1,
                     Where where = Where::current());

// Which values pad() adds around an array: one value; the entry at the edge; the array mirrored at its edge
// entry; or the array repeated.
enum class PadMode : std::uint8_t { constant, edge, reflect, wrap };
// Adds before[i] entries in front of axis i and after[i] behind it; one number counts for all axes.
NDArray pad(const NDArray& x, Dims before, Dims after, PadMode mode = PadMode::constant, Scalar value = 0,
            Where where = Where::current());

}  // namespace heddle
