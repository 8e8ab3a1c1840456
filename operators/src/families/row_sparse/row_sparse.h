// What operators with a row-sparse gradient share with the functions on row-sparse arrays.
#pragma once

#include <heddle/row_sparse.h>

namespace heddle::operators_detail {

// row_sparse() for rows of any shape, values having rows.size() rows: pushes an op called `name`, whose errors are in
// the name of `op`. Both are literals.
RowSparse push_row_sparse(const char* name, const char* op, const NDArray& rows, const NDArray& values,
                          const Shape& shape);

}  // namespace heddle::operators_detail
