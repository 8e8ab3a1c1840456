// Row-sparse arrays: some rows of a large array, such as the gradient of an embedding. docs/arrays.md says more.
#pragma once

#include <heddle/c/operator.h>

#ifdef __cplusplus
extern "C" {
#endif

// Makes a row-sparse array of `shape` = (n, d...). `count` (i64, one element) is the number of present rows.
// `rows` (i64, shape (k)) has their indices, rising, then n in unused places. `values` (k, d...) has the
// rows. The operator "row_sparse" takes rows in any order.
HEDDLE_API heddle_status heddle_row_sparse_create(const int64_t* shape, int32_t ndim,
                                                  const heddle_array* rows, const heddle_array* values,
                                                  const heddle_array* count, heddle_row_sparse** result,
                                                  heddle_error** error);
HEDDLE_API heddle_status heddle_row_sparse_destroy(heddle_row_sparse* array);
// Makes handles on the arrays `rows`, `values` and `count` of a row-sparse array; each output may be null.
HEDDLE_API heddle_status heddle_row_sparse_parts(const heddle_row_sparse* array, heddle_array** rows,
                                                 heddle_array** values, heddle_array** count,
                                                 heddle_error** error);
// The shape of the whole array that the row-sparse array stands for. `shape` has room for HEDDLE_MAX_DIMS
// numbers.
HEDDLE_API heddle_status heddle_row_sparse_shape(const heddle_row_sparse* array, int64_t* shape,
                                                 int32_t* ndim, heddle_error** error);

#ifdef __cplusplus
}
#endif
