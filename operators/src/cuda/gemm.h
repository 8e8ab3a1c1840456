// Products of matrices on GPUs: by cuBLASLt where it is installed and takes the product, else by Heddle's own kernel.
#pragma once

#include <heddle/kernel_context.h>

#include "cuda/gemm_problem.h"

namespace heddle::cuda_kernels {

// Enqueues the product. Called by the op that does the work. `steps`, `a`, `b` and `d` as in Gemm; d may be empty.
void gemm(const KernelContext& context, const Gemm& gemm);

// Which of the two computes: `both` is the rule above. HEDDLE_GPU_PRODUCTS is "own" or "library" for programs; tests call
// choose_gemm(). With `library` a product that cuBLASLt refuses is still computed by the own kernel.
enum class GemmWay { both, own, library };
void choose_gemm(GemmWay way);

}  // namespace heddle::cuda_kernels
