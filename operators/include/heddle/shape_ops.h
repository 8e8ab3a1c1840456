// Operators that rearrange elements. Where no element moves the result is a view, which shares x's memory. All record a
// gradient where one is needed, as NDArray's members do. Bad axes and shapes throw InvalidArgument at the call.
#pragma once

#include <cstdint>
#include <vector>

#include <heddle/ndarray.h>

namespace heddle {

// The elements in row-major order in another shape; one dimension may be -1. A view if x is contiguous, else
// a copy.
NDArray reshape(const NDArray& x, Shape shape, Where where = Where::current());
// Merges the axes from from_axis on.
NDArray flatten(const NDArray& x, int from_axis = 1, Where where = Where::current());

// transpose() returns a view with the axes reversed, or, if `axes` are given, a view whose axis i is axis
// axes[i] of x.
NDArray transpose(const NDArray& x, Where where = Where::current());
NDArray transpose(const NDArray& x, Dims axes, Where where = Where::current());
// A view with stride 0 along broadcast axes.
NDArray broadcast_to(const NDArray& x, Shape shape, Where where = Where::current());
// A view with a new axis of size 1, which is `axis` of the result.
NDArray expand_dims(const NDArray& x, int axis, Where where = Where::current());
// A view without the given axes, which have size 1; if `axes` is empty, without any axis of size 1.
NDArray squeeze(const NDArray& x, Dims axes = {}, Where where = Where::current());
// A view of a range of entries along an axis.
NDArray slice(const NDArray& x, int axis, Slice range, Where where = Where::current());

// concat() joins arrays along an axis that they have, stack() along a new one. Dtypes are promoted.
NDArray concat(const std::vector<NDArray>& arrays, int axis = 0, Where where = Where::current());
NDArray stack(const std::vector<NDArray>& arrays, int axis = 0, Where where = Where::current());

// The entries of x at `indices` (integers of any shape, negative from the end) along `axis`. The axes of
// `indices` take the place of that axis in the result. An index out of range is an op error. Gradients of
// repeated indices add up.
NDArray take(const NDArray& x, const NDArray& indices, int axis = 0, Where where = Where::current());

// Shape labels.shape + (n,): 1 at each label (integers, 0 <= label < n, else an op error), 0 elsewhere.
NDArray one_hot(const NDArray& labels, std::int64_t n, DType dtype = DType::f32,
                Where where = Where::current());

// Converts as NDArray::astype() does, but returns x itself if x has that dtype.
NDArray cast(const NDArray& x, DType dtype, Where where = Where::current());
NDArray contiguous(const NDArray& x, Where where = Where::current());  // x itself if it is contiguous
NDArray copy(const NDArray& x, Where where = Where::current());        // never shares memory with x
// A copy of x on another device. The gradient is copied back to the device of x.
NDArray copy_to(const NDArray& x, Device device, Where where = Where::current());

}  // namespace heddle
