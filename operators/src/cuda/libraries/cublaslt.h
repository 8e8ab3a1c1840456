// Products of matrices by cuBLASLt. gemm() calls it.
#pragma once

#include <cstddef>

#include <heddle/kernel_context.h>

#include "cuda/gemm_problem.h"

namespace heddle::cuda_kernels {

// Whether the library is there and the product is of a form that it may compute.
bool cublaslt_takes(const Gemm& gemm);
// Enqueues the product, whose d is not empty. False if cuBLASLt has no algorithm for it: then nothing is enqueued. f32 is
// computed in f32, or in TF32 if HEDDLE_TF32 is 1. Throws Error if cuBLASLt fails, and OutOfMemory.
bool cublaslt_gemm(const KernelContext& context, const Gemm& gemm);

// Descriptors and algorithms are kept for each form of product and each GPU.
struct CublasltStats {
  std::size_t plans;   // that are kept
  std::size_t made;    // since the program began
  std::size_t called;  // products that were enqueued
};
CublasltStats cublaslt_stats();

}  // namespace heddle::cuda_kernels
