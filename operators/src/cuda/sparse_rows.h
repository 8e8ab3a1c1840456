// Row-sparse arrays as kernels for GPUs are given them.
#pragma once

#include <heddle/row_sparse.h>

#include "cuda/arrays.h"
#include "cuda/row_sums.h"

namespace heddle::cuda_kernels {

inline SparseRows sparse_rows(const RowSparse& x, check::AccessKind touch = check::AccessKind::write) {
  const auto of = [touch](const NDArray& array) {
    return array.size() == 0 ? nullptr : address(array, touch);
  };
  return {reinterpret_cast<long long*>(of(x.rows())), of(x.values()),
          reinterpret_cast<long long*>(of(x.count())), x.capacity()};
}

// The number of elements of a row of an array with this shape.
inline std::int64_t row_width(const Shape& shape) {
  std::int64_t width = 1;
  for (int d = 1; d < shape.size(); ++d) width *= shape[d];
  return width;
}

}  // namespace heddle::cuda_kernels
