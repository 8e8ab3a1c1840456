// The kernel type of linspace and logspace.
#pragma once

#include <heddle/kernel_context.h>
#include <heddle/ndarray.h>

#include "families/creation/series_functors.h"

namespace heddle {

// y[i] = series(i), converted; y is contiguous.
using SeriesKernel = void(const KernelContext& context, const Series& series, const NDArray& y);

}  // namespace heddle
