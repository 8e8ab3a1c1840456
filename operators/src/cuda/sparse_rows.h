// Row-sparse arrays as kernels for GPUs are given them.
#pragma once

#include <heddle/row_sparse.h>

#include "core/data_error.h"
#include "cuda/arrays.h"
#include "cuda/data_fault.h"
#include "cuda/present_rows.h"

namespace heddle::cuda_kernels {

inline SparseRows sparse_rows(const RowSparse& x, check::AccessKind touch = check::AccessKind::write) {
  const auto of = [touch](const NDArray& array) {
    return array.size() == 0 ? nullptr : address(array, touch);
  };
  return {reinterpret_cast<long long*>(of(x.rows())), of(x.values()),
          reinterpret_cast<long long*>(of(x.count())), x.capacity()};
}

// A row-sparse array that an op reads, number `number` of its own.
inline PresentRows present_in(const RowSparse& x, int number, const DataFault& fault) {
  return {sparse_rows(x, check::AccessKind::read), x.shape()[0], number, fault.slot()};
}

// Throws the CPU's error for the rows of a row-sparse array.
[[noreturn]] inline void refuse_present(const char* op, std::int64_t bound, const FaultSlot& found) {
  const auto value = static_cast<std::int64_t>(found.value), other = static_cast<std::int64_t>(found.other);
  if (found.kind == kBadCount) refuse_row_count(op, value, other);
  refuse_row(op, bound, value, other);
}

// The number of elements of a row of an array with this shape.
inline std::int64_t row_width(const Shape& shape) {
  std::int64_t width = 1;
  for (int d = 1; d < shape.size(); ++d) width *= shape[d];
  return width;
}

}  // namespace heddle::cuda_kernels
