// For operators whose kernels work along a contiguous last axis.
#pragma once

#include <cstdint>
#include <optional>

#include <heddle/ndarray.h>

namespace heddle::operators_detail {

// Returns x, detached and contiguous, with the axis moved to the end.
NDArray with_axis_last(const NDArray& x, int axis);
// Returns y, contiguous, with its last axis moved to position `axis`.
NDArray with_axis_back(const NDArray& y, int axis);

// Records y = take_along_axis(x, indices, axis), for a y that has these values. Defined in gather_scatter.cc.
void record_gathered(const char* op, NDArray& y, const NDArray& x, const NDArray& indices, int axis);

}  // namespace heddle::operators_detail
