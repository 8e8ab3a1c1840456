// Operators that read and write elements at indices given by arrays. All return new arrays; x.assign(...)
// copies a result into x.
//
// Indices are integers, negative ones from the end; one out of range is an op error. Repeated indices are
// written or added in the order of the indices, with any number of workers. The results, and values written
// into x, have x's dtype. Floating arguments get a gradient.
#pragma once

#include <cstdint>
#include <vector>

#include <heddle/elementwise.h>

namespace heddle {

// y[i, j] = x[i, indices[i, j]] for axis 1, and so on. On other axes x and indices broadcast; for gather
// indices may be smaller.
NDArray take_along_axis(const NDArray& x, const NDArray& indices, int axis = -1,
                        Where where = Where::current());
NDArray gather(const NDArray& x, const NDArray& indices, int axis = -1, Where where = Where::current());

// y is x with y[indices[i, j], j] = source[i, j] for axis 0, and so on, or with the sum, minimum or maximum
// there. indices have source's shape; on other axes x is at least as large. source may be a number, or one
// element.
NDArray scatter(const NDArray& x, const NDArray& indices, const Operand& source, int axis = -1,
                Where where = Where::current());
NDArray scatter_add(const NDArray& x, const NDArray& indices, const Operand& source, int axis = -1,
                    Where where = Where::current());
NDArray scatter_min(const NDArray& x, const NDArray& indices, const Operand& source, int axis = -1,
                    Where where = Where::current());
NDArray scatter_max(const NDArray& x, const NDArray& indices, const Operand& source, int axis = -1,
                    Where where = Where::current());

// x with source[i] added to, or copied to, entry indices[i] of an axis. indices have one axis.
NDArray index_add(const NDArray& x, const NDArray& indices, const NDArray& source, int axis = 0,
                  Where where = Where::current());
NDArray index_copy(const NDArray& x, const NDArray& indices, const NDArray& source, int axis = 0,
                   Where where = Where::current());
// y is x with y[indices[0], indices[1], ...] = values, or with their sum. The indices broadcast to one shape,
// and values to that shape and the rest of x's axes.
NDArray index_put(const NDArray& x, const std::vector<NDArray>& indices, const Operand& values,
                  bool accumulate = false, Where where = Where::current());
// x with values at these indices of the flattened array.
NDArray put(const NDArray& x, const NDArray& indices, const Operand& values, Where where = Where::current());

// The elements where a mask (bool) is true, along one axis. x and mask broadcast. Waits for the mask.
NDArray masked_select(const NDArray& x, const NDArray& mask, Where where = Where::current());
// x with a value, or with the elements of source in order, where mask is true. mask broadcasts to x. A source
// with too few elements is an op error.
NDArray masked_fill(const NDArray& x, const NDArray& mask, Scalar value, Where where = Where::current());
NDArray masked_scatter(const NDArray& x, const NDArray& mask, const NDArray& source,
                       Where where = Where::current());

// The indices (i64) of the nonzero elements, in row-major order: nonzero gives an array for each axis,
// argwhere a row for each such element. Both wait for x.
std::vector<NDArray> nonzero(const NDArray& x, Where where = Where::current());
NDArray argwhere(const NDArray& x, Where where = Where::current());

}  // namespace heddle
