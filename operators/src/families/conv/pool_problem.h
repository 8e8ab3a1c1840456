// The arguments of poolings, checked.
#pragma once

#include <string>

#include <heddle/pooling.h>

#include "families/conv/pooling_kernels.h"

namespace heddle {

// Both check x and the numbers, and throw InvalidArgument that names the op. `axes`: spatial axes of x, 1 to 3.
PoolProblem pool_problem(const std::string& op, int axes, const NDArray& x, const PoolOptions& options);
PoolProblem adaptive_pool_problem(const std::string& op, int axes, const NDArray& x, const Dims& size);

}  // namespace heddle
