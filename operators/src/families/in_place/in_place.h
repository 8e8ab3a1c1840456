// What every function checks that writes into an array which the caller has.
#pragma once

#include <heddle/ndarray.h>

namespace heddle::operators_detail {

// Throws InvalidArgument if elements of x share memory.
void check_target(const char* op, const NDArray& x);
// Throws InvalidArgument unless a result of this dtype fits x: it has the kind of x's dtype, or an earlier one.
void check_result_fits(const char* op, DType result, const NDArray& x);
// Throws Error: a gradient would be recorded.
[[noreturn]] void refuse_recording(const char* op);

// Both are the same elements of what they share or do not share.
bool same_view(const NDArray& a, const NDArray& b);

}  // namespace heddle::operators_detail
