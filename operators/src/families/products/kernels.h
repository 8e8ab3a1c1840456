// What matmul and linear ask of a device.
#pragma once

#include <cstdint>
#include <vector>

#include <heddle/kernel_context.h>
#include <heddle/ndarray.h>

namespace heddle {

// Products of matrices that lie in two arrays; each result is the sum of `terms` products.
struct MatmulProblem {
  struct Operand {
    bool transposed;      // memory holds the transposes
    std::int64_t stride;  // between memory's rows, in elements
  };
  struct Step {
    std::int64_t a, b;  // where the two matrices begin, in elements from each array's first
  };
  std::int64_t m, n, k;
  Operand a, b;
  std::vector<Step> steps;  // those of result 0, of result 1, ...
  std::int64_t terms;       // steps a result, at least 1 unless there are no results
};

// y: contiguous, steps.size() / terms results of (m, n). a and b of y's dtype.
using MatmulKernel = void(const KernelContext& context, const MatmulProblem& problem, const NDArray& a,
                          const NDArray& b, const NDArray& y);

// y (rows, out) = x (rows, in) * weight (out, in)^T + bias, or without if it is undefined; then max(0, .) if relu.
using LinearKernel = void(const KernelContext& context, const NDArray& x, const NDArray& weight,
                          const NDArray& bias, const NDArray& y, bool relu);

// sums (columns) = the sum of g's rows (rows, columns).
using ColumnSumsKernel = void(const KernelContext& context, const NDArray& g, const NDArray& sums);

// out = 0 where y <= 0, else g, also where y is NaN: the gradient through a fused relu. All contiguous, of one shape.
using ReluMaskKernel = void(const KernelContext& context, const NDArray& g, const NDArray& y,
                            const NDArray& out);

}  // namespace heddle
