// Products of matrices by Heddle's own kernel, in plain types: nvcc compiles C++17.
#pragma once

#include "cuda/gemm_problem.h"

namespace heddle::cuda_kernels {

// Bytes of memory for the parts of sums.
long long gemm_bytes(const Gemm& gemm);
// d is not empty; `parts` is gemm_bytes() of memory. Returns why a kernel could not be launched; null if all were.
const char* launch_gemm(void* stream, const Gemm& gemm, void* parts);

// Makes d of floating sums of f32 or f64, which are dense: does what follows the sum in gemm.
const char* launch_gemm_end(void* stream, const Gemm& gemm, const void* sums);

}  // namespace heddle::cuda_kernels
