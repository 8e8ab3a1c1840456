#include <algorithm>

#include <heddle/c/row_sparse.h>

#include "array_handle.h"

using namespace heddle;
using namespace heddle::c;

heddle_status heddle_row_sparse_create(const int64_t* shape, int32_t ndim, const heddle_array* rows,
                                       const heddle_array* values, const heddle_array* count,
                                       heddle_row_sparse** result, heddle_error** error) {
  return called(error, [&] {
    constexpr const char* kCall = "heddle_row_sparse_create";
    const UsedArray which(rows, kCall), what(values, kCall), how_many(count, kCall);
    check_out(result, kCall, "result");
    RowSparse made(dims_of(shape, ndim, kCall), which->array, what->array, how_many->array);
    *result = new_handle(std::move(made), what->engine);
  });
}

heddle_status heddle_row_sparse_destroy(heddle_row_sparse* array) {
  return guarded(nullptr, [&] {
    if (array) take(array, "heddle_row_sparse_destroy");
  });
}

heddle_status heddle_row_sparse_parts(const heddle_row_sparse* array, heddle_array** rows,
                                      heddle_array** values, heddle_array** count, heddle_error** error) {
  return called(error, [&] {
    const HandleAccess<heddle_row_sparse> of(array, "heddle_row_sparse_parts");
    const struct {
      heddle_array** out;
      const NDArray& part;
    } parts[] = {{rows, of->rows.rows()}, {values, of->rows.values()}, {count, of->rows.count()}};
    heddle_array* made[3] = {};
    try {
      for (int i = 0; i < 3; ++i)
        if (parts[i].out) made[i] = new_handle(parts[i].part, of->engine);
    } catch (...) {
      for (heddle_array* one : made) heddle_array_destroy(one);
      throw;
    }
    for (int i = 0; i < 3; ++i)
      if (parts[i].out) *parts[i].out = made[i];
  });
}

heddle_status heddle_row_sparse_shape(const heddle_row_sparse* array, int64_t* shape, int32_t* ndim,
                                      heddle_error** error) {
  return called(error, [&] {
    const HandleAccess<heddle_row_sparse> of(array, "heddle_row_sparse_shape");
    check_out(shape, "heddle_row_sparse_shape", "shape");
    check_out(ndim, "heddle_row_sparse_shape", "ndim");
    const Shape& whole = of->rows.shape();
    std::copy(whole.begin(), whole.end(), shape);
    *ndim = whole.size();
  });
}
