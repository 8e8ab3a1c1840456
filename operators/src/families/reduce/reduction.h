// Helpers of the operators that reduce axes.
#pragma once

#include <heddle/ndarray.h>

namespace heddle::operators_detail {

// The axes to reduce, ascending, each once; all axes if `axes` is empty. Throws InvalidArgument for one out
// of range or given twice.
Dims reduced_axes(const char* op, const NDArray& x, const Dims& axes);

// Pushes the reduction `op` of x over the axes. The result keeps these axes with size 1.
NDArray push_reduce(const char* op, const NDArray& x, const Dims& axes, DType result);

// push_reduce's result `kept` without the reduced axes; with them if keepdims.
NDArray without_reduced(const NDArray& kept, const NDArray& x, const Dims& axes, bool keepdims);

// For each element of x, which is floating, the product of the other elements along the axis; not recorded.
NDArray product_of_others(const NDArray& x, int axis);

}  // namespace heddle::operators_detail
