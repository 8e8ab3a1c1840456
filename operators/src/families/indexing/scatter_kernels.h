// Kernel types of the operators that read and write elements by arrays of indices. `op`: the name for errors.
// Indices are integers with any strides. Negative ones count from the end; one that is out of range throws
// Error.
#pragma once

#include <cstdint>
#include <vector>

#include <heddle/kernel_context.h>
#include <heddle/ndarray.h>

namespace heddle {

enum class Scatter : std::uint8_t { set, add, min, max };

// y[p] = x[p with indices[p] along the axis]. x, indices and y have the same number of axes; off the axis, x
// and indices broadcast to y, and x may be larger.
using GatherKernel = void(const KernelContext& context, const char* op, const NDArray& x,
                          const NDArray& indices, const NDArray& y, int axis);

// y[p with indices[p] along the axis] = source[p], or the sum, minimum or maximum of both, in the order of p
// along the axis. indices broadcast to source. Takes f16 and bf16 only for `set`, all other dtypes always.
using ScatterKernel = void(const KernelContext& context, const char* op, const NDArray& indices,
                           const NDArray& source, const NDArray& y, int axis, Scatter how);

// y (i64, contiguous): row-major positions in an array of shape `bounds`. All arrays have y's shape.
using FlatIndexKernel = void(const KernelContext& context, const char* op,
                             const std::vector<NDArray>& indices, const Dims& bounds, const NDArray& y);

// mask is bool. All arrays are contiguous. "masked_select": y has one axis: the elements of x where mask is
// true, then zeros. "masked_scatter": the elements of y where mask is true become the first ones of x, which
// has one axis. Throws Error if the array with one axis is too short, or with `exact` too long.
using MaskedKernel = void(const KernelContext& context, const char* op, const NDArray& mask, const NDArray& x,
                          const NDArray& y, bool exact);

// y (i64; axes of x, elements): the indices of the elements of x (bool, contiguous) that are true. Throws
// Error if y has room for another number of them.
using NonzeroKernel = void(const KernelContext& context, const NDArray& x, const NDArray& y);

}  // namespace heddle
