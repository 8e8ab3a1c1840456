// What the operators share that read and write elements at places.
#pragma once

#include <vector>

#include <heddle/elementwise.h>

#include "families/indexing/scatter_kernels.h"

namespace heddle::operators_detail {

// Throws InvalidArgument unless indices are integers; `what` they are called.
void check_indices(const char* op, const char* what, const NDArray& indices);

// What is written into x: of its dtype, repeated to `shape`, on the tape.
NDArray scattered_values(const char* op, const NDArray& x, const Operand& given, const Shape& shape);

// x with `source` (of x's dtype) written along an axis; indices have as many axes and broadcast to it. Records itself.
NDArray scattered(const char* op, const NDArray& x, const NDArray& indices, const NDArray& source, int axis,
                  Scatter how);

// Writes `source` (of x's dtype) into x's memory, as scattered() into a copy. Records nothing.
void scatter_into(const char* op, const NDArray& x, const NDArray& indices, const NDArray& source, int axis,
                  Scatter how);

// take(), whose op and errors are in the name of `op`, a literal.
NDArray taken(const char* op, const NDArray& x, const NDArray& indices, int axis);

// The places that the indices name in an array of shape `bounds`, counted in row-major order: i64, one axis, as many as
// `shape` has elements, to which they broadcast.
NDArray flat_places(const char* op, const std::vector<NDArray>& indices, const Dims& bounds,
                    const Shape& shape);

// The indices of the elements that are not 0: i64 (axes, elements). Waits for x.
NDArray where_true(const NDArray& x);

}  // namespace heddle::operators_detail
