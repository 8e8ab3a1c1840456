// Products of matrices by Heddle's own kernel, in plain types: nvcc compiles C++17.
#pragma once

#include "cuda/gemm_problem.h"

namespace heddle::cuda_kernels {

// How a product is divided. Depends on its sizes and dtypes alone.
struct GemmPlan {
  bool large;            // tiles of 128 * 128 elements instead of 64 * 64
  long long steps;       // slices of k, of all terms
  long long part_steps;  // slices that one block adds up
  long long parts;       // sums of which each element is made; more than 1 need memory
  long long bytes;       // of that memory
};
GemmPlan plan_gemm(const Gemm& gemm);

// d is not empty; `parts` is plan.bytes of memory. Returns why a kernel could not be launched; null if all were.
const char* launch_gemm(void* stream, const Gemm& gemm, const GemmPlan& plan, void* parts);

// Makes d of `count` sums for each element, which are at sums + i * batches * m * n, dense, in the type in which products of
// gemm.type are added up: adds them, then does what follows the sum in gemm.
const char* launch_gemm_end(void* stream, const Gemm& gemm, long long count, const void* sums);

}  // namespace heddle::cuda_kernels
