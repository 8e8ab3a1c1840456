// What the operators share that write elements at places.
#pragma once

#include <heddle/elementwise.h>

#include "kernels/scatter_kernels.h"

namespace heddle::operators_detail {

// What is written into x: of its dtype, repeated to `shape`, on the tape.
NDArray scattered_values(const char* op, const NDArray& x, const Operand& given, const Shape& shape);

// x with `source` (of x's dtype) written along an axis; indices have as many axes and broadcast to it. Records itself.
NDArray scattered(const char* op, const NDArray& x, const NDArray& indices, const NDArray& source, int axis,
                  Scatter how);

}  // namespace heddle::operators_detail
