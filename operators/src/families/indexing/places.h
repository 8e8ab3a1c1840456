// Helpers of the operators that read and write elements by arrays of indices.
#pragma once

#include <vector>

#include <heddle/elementwise.h>

#include "families/indexing/scatter_kernels.h"

namespace heddle::operators_detail {

// Throws InvalidArgument unless indices are integers; the message calls them `what`.
void check_indices(const char* op, const char* what, const NDArray& indices);

// The values to write into x: `given` in x's dtype, broadcast to `shape`, on the tape.
NDArray scattered_values(const char* op, const NDArray& x, const Operand& given, const Shape& shape);

// A copy of x with `source` (of x's dtype) written along an axis; indices have as many axes as source and
// broadcast to it. Records itself on the tape.
NDArray scattered(const char* op, const NDArray& x, const NDArray& indices, const NDArray& source, int axis,
                  Scatter how);

// As scattered(), but writes into x's memory and records nothing.
void scatter_into(const char* op, const NDArray& x, const NDArray& indices, const NDArray& source, int axis,
                  Scatter how);

// take() with `op`, a literal, as the name of its op and in its errors.
NDArray taken(const char* op, const NDArray& x, const NDArray& indices, int axis);

// Row-major positions of the elements that the indices select in an array of shape `bounds`: i64, one axis,
// with as many elements as `shape`, to which the indices broadcast.
NDArray flat_indices(const char* op, const std::vector<NDArray>& indices, const Dims& bounds,
                     const Shape& shape);

// The indices of the elements that are not 0: i64 (axes, elements). Waits for x.
NDArray where_true(const NDArray& x);

}  // namespace heddle::operators_detail
