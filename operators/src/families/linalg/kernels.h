// What linear algebra asks of a device.
#pragma once

#include <vector>

#include <heddle/kernel_context.h>
#include <heddle/ndarray.h>

namespace heddle {

// Arguments and results: matrices, or vectors of what a matrix has, of one batch shape; contiguous, f32 or f64. Errors name
// `op`, a literal. What `flag` and `number` mean, the operator says.
struct LinalgCall {
  const char* op;
  std::vector<NDArray> in, out;
  bool flag = false;
  double number = 0;
};

using LinalgKernel = void(const KernelContext& context, const LinalgCall& call);

}  // namespace heddle
