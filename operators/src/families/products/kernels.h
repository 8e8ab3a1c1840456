// Kernel types of matmul and linear.
#pragma once

#include <cstdint>
#include <vector>

#include <heddle/kernel_context.h>
#include <heddle/ndarray.h>

namespace heddle {

// Products of matrices of two arrays; each result is the sum of `terms` products.
struct MatmulProblem {
  struct Operand {
    bool transposed;      // whether memory holds the transposed matrices
    std::int64_t stride;  // distance of the rows in memory, in elements
  };
  struct Step {
    std::int64_t a, b;  // offsets of the two matrices in their arrays, in elements
  };
  std::int64_t m, n, k;
  Operand a, b;
  std::vector<Step> steps;  // the steps of result 0, of result 1, ...
  std::int64_t terms;       // steps per result, at least 1 unless there are no results
};

// y: contiguous, steps.size() / terms results of (m, n). a and b have y's dtype, or f16 or bf16 if y is f32.
using MatmulKernel = void(const KernelContext& context, const MatmulProblem& problem, const NDArray& a,
                          const NDArray& b, const NDArray& y);

// y (rows, out) = x (rows, in) * weight (out, in)^T + bias, if bias is defined; then max(0, .) if relu. All have one dtype,
// but the bias of halves may be f32.
using LinearKernel = void(const KernelContext& context, const NDArray& x, const NDArray& weight,
                          const NDArray& bias, const NDArray& y, bool relu);

// sums (columns) = the sum of the rows of g (rows, columns), in g's dtype; those of halves may be f32.
using ColumnSumsKernel = void(const KernelContext& context, const NDArray& g, const NDArray& sums);

// out = 0 where y <= 0, else (also where y is NaN) g: the gradient through a fused relu. All arrays are
// contiguous, of one shape.
using ReluMaskKernel = void(const KernelContext& context, const NDArray& g, const NDArray& y,
                            const NDArray& out);

}  // namespace heddle
