// Copies between any two layouts. Call inside an op, or on memory that no other thread accesses.
#pragma once

#include <cstddef>

#include <heddle/dtype.h>
#include <heddle/ndarray.h>
#include <heddle/shape.h>

namespace heddle::ndarray_detail {

// One operand: its first element and its strides, in elements.
struct Source {
  const std::byte* data;
  DType dtype;
  Strides strides;
};
struct Target {
  std::byte* data;
  DType dtype;
  Strides strides;
};

Source source_of(const NDArray& array);
Target target_of(const NDArray& array);

// target[i] = source[i] for all i of shape, converted (convert.h). The two must not overlap, and no two elements of
// the target may share memory; source strides may be 0. Large copies use parallel_for.
void strided_copy(const Shape& shape, const Target& target, const Source& source);

}  // namespace heddle::ndarray_detail
