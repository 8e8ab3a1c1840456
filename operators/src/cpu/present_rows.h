// Functions of kernels that read row-sparse arrays.
#pragma once

#include <cstdint>
#include <span>

#include <heddle/row_sparse.h>

namespace heddle::cpu_kernels {

// The rows of x that are present. Throws Error naming the operator if there are more than x's capacity, if
// one is not a row of x, or if they do not rise. So no two chunks of these rows write the same row.
std::span<const std::int64_t> present_rows(const char* op, const RowSparse& x);

// The number of elements of a row of an array with this shape.
std::int64_t row_width(const Shape& shape);

}  // namespace heddle::cpu_kernels
