// Rows of classes: what losses of integer labels take.
#pragma once

#include <algorithm>

#include <heddle/ndarray.h>
#include <heddle/shape_ops.h>

namespace heddle::operators_detail {

// Whether x is (..., C) with at least one class, and labels are (...).
inline bool are_rows_of_classes(const NDArray& x, const NDArray& labels) {
  if (x.ndim() == 0 || x.shape()[x.ndim() - 1] == 0) return false;
  return std::equal(x.shape().begin(), x.shape().end() - 1, labels.shape().begin(), labels.shape().end());
}

// (..., C) -> (N, C)
inline NDArray rows_of_classes(const NDArray& x) {
  const std::int64_t classes = x.shape()[x.ndim() - 1];
  return reshape(x, {x.size() / classes, classes});
}

}  // namespace heddle::operators_detail
