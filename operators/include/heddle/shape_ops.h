// Operators that rearrange elements. Those that only look at them differently share x's memory (a view). All record a
// gradient where one is needed, as NDArray's members do. Bad axes and shapes throw InvalidArgument at the call.
#pragma once

#include <cstdint>
#include <vector>

#include <heddle/ndarray.h>

namespace heddle {

// The elements in row-major order in another shape; one dimension may be -1. A view if x is contiguous, else a copy.
NDArray reshape(const NDArray& x, Shape shape);
NDArray flatten(const NDArray& x, int from_axis = 1);  // merges the axes from from_axis on

// Views.
NDArray transpose(const NDArray& x);             // axes reversed
NDArray transpose(const NDArray& x, Dims axes);  // axis i of the result is axis axes[i] of x
NDArray broadcast_to(const NDArray& x, Shape shape);
NDArray expand_dims(const NDArray& x, int axis);    // `axis` of the result has size 1
NDArray squeeze(const NDArray& x, Dims axes = {});  // without these axes of size 1; none given: all such
NDArray slice(const NDArray& x, int axis, Slice range);

// Arrays one after another along an axis that they have, or along a new one. Dtypes are promoted.
NDArray concat(const std::vector<NDArray>& arrays, int axis = 0);
NDArray stack(const std::vector<NDArray>& arrays, int axis = 0);

// The entries of x at `indices` (i32 or i64, of any shape, negative from the end) along `axis`, which the axes of
// indices take the place of. An index out of range is an op error. Gradients of repeated indices add up.
NDArray take(const NDArray& x, const NDArray& indices, int axis = 0);

// Shape labels.shape + (n,): 1 at each label (i32 or i64, 0 <= label < n, else an op error), 0 elsewhere.
NDArray one_hot(const NDArray& labels, std::int64_t n, DType dtype = DType::f32);

NDArray cast(const NDArray& x, DType dtype);       // NDArray::astype, but x itself if it has that dtype
NDArray contiguous(const NDArray& x);              // x itself if it is
NDArray copy(const NDArray& x);                    // never shares memory with x
NDArray copy_to(const NDArray& x, Device device);  // the gradient is copied back to x's device

}  // namespace heddle
