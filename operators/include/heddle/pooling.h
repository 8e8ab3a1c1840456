// Pooling along one, two or three axes: the largest element, or the mean, of each window of a channel.
#pragma once

#include <array>

#include <heddle/ndarray.h>

namespace heddle {

// Numbers along the axes, from the first to the last; one number stands for all.
struct PoolOptions {
  Dims kernel = 2;                // sizes of the windows
  Dims stride{};                  // steps between windows; empty: their sizes
  Dims padding = 0;               // added on each side; at most half the kernel's size
  bool count_include_pad = true;  // avg_pool only: padding counts in the divisor, as is PyTorch's default
  Dims dilation = 1;              // max_pool only: distance between a window's elements
  bool ceil_mode = false;  // true: a last window may end beyond the padding, if it begins before its end
};
using Pool1dOptions = PoolOptions;
using Pool2dOptions = PoolOptions;
using Pool3dOptions = PoolOptions;

// x (N, C, L), floating -> (N, C, OL) with OL = (L + 2 padding - dilation (kernel - 1) - 1) / stride + 1, rounded up with ceil_mode. Each
// result is the maximum of a window's elements, without the padding; NaN if an element is NaN. The gradient goes to
// the first maximum in row-major order. f16 and bf16 are computed in f32. Throws InvalidArgument if a window has no element. Refuses padding
// with a dilation larger than the axis, where PyTorch returns -inf for windows without an element.
NDArray max_pool1d(const NDArray& x, const PoolOptions& options = {}, Where where = Where::current());
NDArray max_pool2d(const NDArray& x, const PoolOptions& options = {}, Where where = Where::current());
NDArray max_pool3d(const NDArray& x, const PoolOptions& options = {}, Where where = Where::current());

// max_pool and where the maxima are: indices (i64) of elements in their (L), (H, W) or (D, H, W), flattened. The gradient is that of max_pool.
std::array<NDArray, 2> max_pool1d_with_indices(const NDArray& x, const PoolOptions& options = {},
                                               Where where = Where::current());
std::array<NDArray, 2> max_pool2d_with_indices(const NDArray& x, const PoolOptions& options = {},
                                               Where where = Where::current());
std::array<NDArray, 2> max_pool3d_with_indices(const NDArray& x, const PoolOptions& options = {},
                                               Where where = Where::current());

// Puts the elements of x (N, C, ...) back to where `indices`, of its shape, say, into zeros (N, C, size...): the inverse of
// max_pool_with_indices, of which options are kernel, stride and padding. Empty sizes are (L - 1) stride - 2 padding + kernel. Of elements with one
// index the last one stays. Throws InvalidArgument for shapes that do not fit; an index that is negative or beyond the last is an error of the op.
NDArray max_unpool1d(const NDArray& x, const NDArray& indices, const PoolOptions& options = {},
                     const Dims& size = {}, Where where = Where::current());
NDArray max_unpool2d(const NDArray& x, const NDArray& indices, const PoolOptions& options = {},
                     const Dims& size = {}, Where where = Where::current());
NDArray max_unpool3d(const NDArray& x, const NDArray& indices, const PoolOptions& options = {},
                     const Dims& size = {}, Where where = Where::current());

// The mean of each window: of x and of the padding, or with count_include_pad = false of x alone. What a window has beyond the
// padding does not count. Shapes as for max_pool1d, without dilation.
NDArray avg_pool1d(const NDArray& x, const PoolOptions& options = {}, Where where = Where::current());
NDArray avg_pool2d(const NDArray& x, const PoolOptions& options = {}, Where where = Where::current());
NDArray avg_pool3d(const NDArray& x, const PoolOptions& options = {}, Where where = Where::current());

// The largest of each of `size` windows along each axis, which together cover x; one number stands for all axes. Window i of an axis of
// L elements begins at floor(i L / size) and ends before ceil((i + 1) L / size), as in PyTorch. Ties, NaN and dtypes as for max_pool1d.
NDArray adaptive_max_pool1d(const NDArray& x, const Dims& size, Where where = Where::current());
NDArray adaptive_max_pool2d(const NDArray& x, const Dims& size, Where where = Where::current());
NDArray adaptive_max_pool3d(const NDArray& x, const Dims& size, Where where = Where::current());

// The mean of each of `size` windows along each axis, which are those of adaptive_max_pool1d.
NDArray adaptive_avg_pool1d(const NDArray& x, const Dims& size, Where where = Where::current());
NDArray adaptive_avg_pool2d(const NDArray& x, const Dims& size, Where where = Where::current());
NDArray adaptive_avg_pool3d(const NDArray& x, const Dims& size, Where where = Where::current());

}  // namespace heddle
