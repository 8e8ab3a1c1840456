// Views of arrays, conversions and changes in place. More is in operator.h.
#pragma once

#include <heddle/c/array.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HEDDLE_END INT64_MIN  // an omitted bound of a slice: to the end of the axis

// Views share storage and var with the array; no value moves. Gradients pass through them.

// Elements begin, begin + step ... before end along the axis, with Python's meaning: negative numbers count from the end.
HEDDLE_API heddle_status heddle_array_slice(const heddle_array* array, int32_t axis, int64_t begin,
                                            int64_t end, int64_t step, heddle_array** view,
                                            heddle_error** error);
// The index-th part along axis 0, with one dimension less; negative from the end.
HEDDLE_API heddle_status heddle_array_index(const heddle_array* array, int64_t index, heddle_array** view,
                                            heddle_error** error);
// The array must be contiguous. One dimension may be -1.
HEDDLE_API heddle_status heddle_array_reshape(const heddle_array* array, const int64_t* shape, int32_t ndim,
                                              heddle_array** view, heddle_error** error);
// Dimension i of the view is the array's dimension axes[i]. Null axes: all in reverse, and ndim is ignored.
HEDDLE_API heddle_status heddle_array_transpose(const heddle_array* array, const int32_t* axes, int32_t ndim,
                                                heddle_array** view, heddle_error** error);
// Broadcasts by NumPy's rule, with strides of 0. The view cannot be written.
HEDDLE_API heddle_status heddle_array_broadcast(const heddle_array* array, const int64_t* shape, int32_t ndim,
                                                heddle_array** view, heddle_error** error);
// A view of the same data, outside any autograd tape.
HEDDLE_API heddle_status heddle_array_detach(const heddle_array* array, heddle_array** view,
                                             heddle_error** error);

// Copies into new contiguous arrays.
HEDDLE_API heddle_status heddle_array_clone(const heddle_array* array, heddle_array** result,
                                            heddle_error** error);
HEDDLE_API heddle_status heddle_array_to_device(const heddle_array* array, heddle_device device,
                                                heddle_array** result, heddle_error** error);
HEDDLE_API heddle_status heddle_array_astype(const heddle_array* array, int32_t dtype, heddle_array** result,
                                             heddle_error** error);
// The array itself, in the same memory, if it is contiguous, else a contiguous copy.
HEDDLE_API heddle_status heddle_array_contiguous(const heddle_array* array, heddle_array** result,
                                                 heddle_error** error);

// Writes the array in place. `source` is broadcast and converted; it may overlap the array. Fails while
// gradients are recorded if one of the two is part of a recorded computation.
HEDDLE_API heddle_status heddle_array_assign(const heddle_array* array, const heddle_array* source,
                                             heddle_error** error);
HEDDLE_API heddle_status heddle_array_fill(const heddle_array* array, double value, heddle_error** error);
HEDDLE_API heddle_status heddle_array_fill_integer(const heddle_array* array, int64_t value,
                                                   heddle_error** error);

#ifdef __cplusplus
}
#endif
