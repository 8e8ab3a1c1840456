// What operators with a row-sparse gradient share with the functions on row-sparse arrays.
#pragma once

#include <heddle/row_sparse.h>

namespace heddle::operators_detail {

// row_sparse() for rows of any shape, values having rows.size() rows: pushes an op called `name`, whose errors are in
// the name of `op`. Both are literals.
RowSparse push_row_sparse(const char* name, const char* op, const NDArray& rows, const NDArray& values,
                          const Shape& shape);

// Throws InvalidArgument unless indices are i32 or i64; `what` they are called.
void check_indices(const char* op, const char* what, const NDArray& indices);

}  // namespace heddle::operators_detail
