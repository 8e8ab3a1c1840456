// Arrays of indices as kernels use them.
#pragma once

#include <cstdint>
#include <vector>

#include <heddle/ndarray.h>

namespace heddle::cpu_kernels {

// All indices (integers, of any strides) in row-major order. Negative ones count from the end if the operator allows
// that. Throws Error naming the operator, an index that is not below `bound`, and its position.
std::vector<std::int64_t> checked_indices(const char* op, const NDArray& indices, std::int64_t bound,
                                          bool from_end);

}  // namespace heddle::cpu_kernels
