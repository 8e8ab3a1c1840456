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

// y[i, j] = x[i, indices[i, j]] for axis 1, and so on. On the other axes take_along_axis() broadcasts x and
// indices, while gather() takes indices that may be smaller than x.
NDArray take_along_axis(const NDArray& x, const NDArray& indices, int axis = -1,
                        Where where = Where::current());
NDArray gather(const NDArray& x, const NDArray& indices, int axis = -1, Where where = Where::current());

// The result y is x with y[indices[i, j], j] = source[i, j] for axis 0, and so on. scatter_add(),
// scatter_min() and scatter_max() write the sum, minimum or maximum of the old element and the source
// instead. indices have the shape of source; on the other axes x is at least as large. source may be a
// number, or an array of one element.
NDArray scatter(const NDArray& x, const NDArray& indices, const Operand& source, int axis = -1,
                Where where = Where::current());
NDArray scatter_add(const NDArray& x, const NDArray& indices, const Operand& source, int axis = -1,
                    Where where = Where::current());
NDArray scatter_min(const NDArray& x, const NDArray& indices, const Operand& source, int axis = -1,
                    Where where = Where::current());
NDArray scatter_max(const NDArray& x, const NDArray& indices, const Operand& source, int axis = -1,
                    Where where = Where::current());

// A copy of x with source[i] added to (index_add) or copied to (index_copy) entry indices[i] of an axis.
// indices have one axis.
NDArray index_add(const NDArray& x, const NDArray& indices, const NDArray& source, int axis = 0,
                  Where where = Where::current());
NDArray index_copy(const NDArray& x, const NDArray& indices, const NDArray& source, int axis = 0,
                   Where where = Where::current());
// The result y is x with y[indices[0], indices[1], ...] = values; with `accumulate` the values are added. The
// indices broadcast to one shape, and values to that shape followed by the other axes of x.
NDArray index_put(const NDArray& x, const std::vector<NDArray>& indices, const Operand& values,
                  bool accumulate = false, Where where = Where::current());
// A copy of x with the values written at `indices` of the flattened array.
NDArray put(const NDArray& x, const NDArray& indices, const Operand& values, Where where = Where::current());

// The elements of x where a mask (bool) is true, as an array with one axis. x and mask broadcast. Waits for
// the mask.
NDArray masked_select(const NDArray& x, const NDArray& mask, Where where = Where::current());
// A copy of x with other elements where mask is true: masked_fill() writes `value`, masked_scatter() the
// elements of source in their order. mask broadcasts to x. A source with too few elements is an op error.
NDArray masked_fill(const NDArray& x, const NDArray& mask, Scalar value, Where where = Where::current());
NDArray masked_scatter(const NDArray& x, const NDArray& mask, const NDArray& source,
                       Where where = Where::current());

// The indices (i64) of the nonzero elements, in row-major order: nonzero gives an array for each axis,
// argwhere a row for each such element. nonzero() and argwhere() wait for x.
std::vector<NDArray> nonzero(const NDArray& x, Where where = Where::current());
NDArray argwhere(const NDArray& x, Where where = Where::current());

}  // namespace heddle
