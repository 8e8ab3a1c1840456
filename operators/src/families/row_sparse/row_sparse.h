// Shared by operators with a row-sparse gradient and functions on row-sparse arrays.
#pragma once

#include <cstdint>

#include <heddle/row_sparse.h>

namespace heddle::operators_detail {

// As row_sparse(), for `rows` of any shape with rows.size() rows of values. Pushes an op named `name`; errors
// are in the name of `op`. `name` and `op` are string literals.
RowSparse push_row_sparse(const char* name, const char* op, const NDArray& rows, const NDArray& values,
                          const Shape& shape);

// A row-sparse array with room for `capacity` rows, at most shape[0], on the device and engine of `like`.
RowSparse make_row_sparse(const NDArray& like, const Shape& shape, DType dtype, std::int64_t capacity);

}  // namespace heddle::operators_detail
