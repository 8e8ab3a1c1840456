// What the operators that reduce axes share.
#pragma once

#include <heddle/ndarray.h>

namespace heddle::operators_detail {

// The axes that are reduced: rising, each once, all for none. Throws InvalidArgument for one out of range or given twice.
Dims reduced_axes(const char* op, const NDArray& x, const Dims& axes);

// Pushes the reduction. The result has size 1 at `axes`.
NDArray push_reduce(const char* op, const NDArray& x, const Dims& axes, DType result);

// The result of push_reduce without these axes, unless they are kept.
NDArray without_reduced(const NDArray& kept, const NDArray& x, const Dims& axes, bool keepdims);

// For each element of a floating x the product of the others on its line along the axis; not recorded.
NDArray product_of_others(const NDArray& x, int axis);

}  // namespace heddle::operators_detail
