// Checks for functions that write into a caller's array.
#pragma once

#include <heddle/ndarray.h>

namespace heddle::operators_detail {

// Throws InvalidArgument if elements of x share memory.
void check_target(const char* op, const NDArray& x);
// Throws InvalidArgument unless a result of this dtype fits x: its kind is that of x, or comes before it in
// kind_order().
void check_result_fits(const char* op, DType result, const NDArray& x);
// Throws the InvalidArgument of a change in place that a tape would have to record.
[[noreturn]] void refuse_recording(const char* op);

// Whether a and b have the same shape, strides and offset, so the same elements if they share a storage.
bool same_view(const NDArray& a, const NDArray& b);

}  // namespace heddle::operators_detail
