// The kernel of tril and triu for GPUs, in plain types.
#pragma once

#include "cuda/strided.h"

namespace heddle::cuda_kernels {

// y[..., i, j] = x[..., i, j] where j - i <= k if `lower`, else where j - i >= k; 0 elsewhere. y is contiguous. Returns why the
// kernel could not be launched; null if it was.
const char* launch_triangle(void* stream, const Strided& x, const Strided& y, long long k, bool lower);

}  // namespace heddle::cuda_kernels
