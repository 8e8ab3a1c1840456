// The form of a list of matrix products.
#pragma once

#include <cstddef>
#include <vector>

#include "cuda/gemm_problem.h"
#include "families/products/kernels.h"

namespace heddle::cuda_kernels {

// The axes along which the offsets steps[0], steps[each], ..., `count` of them, lie, relative to the first. False if they do
// not lie along at most GemmAxes::kMost axes.
bool find_axes(const MatmulProblem::Step* steps, std::size_t count, std::size_t each, GemmAxes& axes);

// Makes one product of several where memory allows: terms that follow each other along k, and batches of one b whose rows of a follow
// each other.
void merge_axes(Gemm& gemm);

}  // namespace heddle::cuda_kernels
