// The kernel of linspace and logspace for GPUs, in plain types: nvcc compiles C++17. register.cc registers it.
#pragma once

#include "families/creation/series_functors.h"

namespace heddle::cuda_kernels {

// to[i] = series(i), converted to the dtype. Returns why the kernel could not be launched; null if it was.
const char* launch_series(void* stream, const Series& series, void* to, long long count, unsigned char dtype);

}  // namespace heddle::cuda_kernels
