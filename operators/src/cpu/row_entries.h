// Sums of rows by their index, for kernels that make a row-sparse array.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <heddle/row_sparse.h>

namespace heddle::cpu_kernels {

// One row of values and the index of the row in the array.
struct RowEntry {
  std::int64_t row;
  const std::byte* values;
};

// y, which is f32 or f64 and has room for them, gets the sum of the entries of each row, added up in their order. Each row is one of y.
void sum_entries(std::vector<RowEntry> entries, const RowSparse& y);

}  // namespace heddle::cpu_kernels
