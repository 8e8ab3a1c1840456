// For operators whose kernels work along a contiguous last axis.
#pragma once

#include <cstdint>
#include <optional>

#include <heddle/ndarray.h>

namespace heddle::operators_detail {

// x detached, contiguous, with the axis moved to the end.
NDArray with_axis_last(const NDArray& x, int axis);
// Contiguous, with the last axis moved to its place.
NDArray with_axis_back(const NDArray& y, int axis);

// Records y = take_along_axis(x, indices, axis), where that is how y was computed. Defined in gather_scatter.cc.
void record_gathered(const char* op, NDArray& y, const NDArray& x, const NDArray& indices, int axis);

}  // namespace heddle::operators_detail
