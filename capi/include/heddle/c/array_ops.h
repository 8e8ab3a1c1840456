// Views of arrays, conversions and changes in place. More is in operator.h.
#pragma once

#include <heddle/c/array.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HEDDLE_END INT64_MIN  // as a bound of a slice: Python's omitted bound, the end of the axis

// Views share storage and var with the array; no value moves. Gradients pass through them.

// The elements begin, begin + step, begin + 2 * step ... along the axis, without `end`. As in Python,
// negative bounds count from the end.
HEDDLE_API heddle_status heddle_array_slice(const heddle_array* array, int32_t axis, int64_t begin,
                                            int64_t end, int64_t step, heddle_array** view,
                                            heddle_error** error);
// The part of the array at this index of axis 0, with one dimension less. A negative index counts from the
// end.
HEDDLE_API heddle_status heddle_array_index(const heddle_array* array, int64_t index, heddle_array** view,
                                            heddle_error** error);
// Views a contiguous array with another shape. One dimension may be -1: it follows from the others.
HEDDLE_API heddle_status heddle_array_reshape(const heddle_array* array, const int64_t* shape, int32_t ndim,
                                              heddle_array** view, heddle_error** error);
// Dimension i of the view is the array's dimension axes[i]. If `axes` is null, the order of the dimensions is
// reversed and ndim is ignored.
HEDDLE_API heddle_status heddle_array_transpose(const heddle_array* array, const int32_t* axes, int32_t ndim,
                                                heddle_array** view, heddle_error** error);
// Broadcasts the array to a shape by NumPy's rule. The view has strides of 0 and cannot be written.
HEDDLE_API heddle_status heddle_array_broadcast(const heddle_array* array, const int64_t* shape, int32_t ndim,
                                                heddle_array** view, heddle_error** error);
// A view of the same data, outside any autograd tape.
HEDDLE_API heddle_status heddle_array_detach(const heddle_array* array, heddle_array** view,
                                             heddle_error** error);

// Copies the array into a new contiguous array.
HEDDLE_API heddle_status heddle_array_clone(const heddle_array* array, heddle_array** result,
                                            heddle_error** error);
HEDDLE_API heddle_status heddle_array_to_device(const heddle_array* array, heddle_device device,
                                                heddle_array** result, heddle_error** error);
HEDDLE_API heddle_status heddle_array_astype(const heddle_array* array, int32_t dtype, heddle_array** result,
                                             heddle_error** error);
// *result is another handle on the array if the array is contiguous, else a contiguous copy.
HEDDLE_API heddle_status heddle_array_contiguous(const heddle_array* array, heddle_array** result,
                                                 heddle_error** error);

// Writes the values of `source`, broadcast and converted, into the array. The two may overlap in memory.
// Fails while gradients are recorded if the array or `source` is part of a recorded computation.
HEDDLE_API heddle_status heddle_array_assign(const heddle_array* array, const heddle_array* source,
                                             heddle_error** error);
HEDDLE_API heddle_status heddle_array_fill(const heddle_array* array, double value, heddle_error** error);
HEDDLE_API heddle_status heddle_array_fill_integer(const heddle_array* array, int64_t value,
                                                   heddle_error** error);

#ifdef __cplusplus
}
#endif
