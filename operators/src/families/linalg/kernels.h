// Kernel types of linear algebra.
#pragma once

#include <vector>

#include <heddle/kernel_context.h>
#include <heddle/ndarray.h>

namespace heddle {

// Arguments and results: matrices, or vectors such as their diagonals, of one batch shape; contiguous, f32 or
// f64. Errors begin with `op`, a literal. Each operator defines what `flag` and `number` mean.
struct LinalgCall {
  const char* op;
  std::vector<NDArray> in, out;
  bool flag = false;
  double number = 0;
};

using LinalgKernel = void(const KernelContext& context, const LinalgCall& call);

}  // namespace heddle
