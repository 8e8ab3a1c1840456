// The gradient through a relu that is fused into another operator.
#pragma once

#include <heddle/ndarray.h>

namespace heddle::operators_detail {

// 0 where y <= 0, else g, also where y is NaN. g and y are contiguous, of one shape; `name` is the op's.
NDArray relu_mask(const char* name, const NDArray& g, const NDArray& y);

}  // namespace heddle::operators_detail
