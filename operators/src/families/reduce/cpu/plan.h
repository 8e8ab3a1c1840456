// How a reduction iterates over its input: the kept and the reduced axes, adjacent ones merged.
#pragma once

#include <array>
#include <cstdint>

#include <heddle/ndarray.h>

namespace heddle::cpu_kernels {

// Axes of the input with their steps in input and result, outermost first; without axes of size 1.
struct AxisGroup {
  int dims = 0;
  std::array<std::int64_t, kMaxDims> sizes{}, steps{}, result_steps{};

  void add(std::int64_t size, std::int64_t step, std::int64_t result_step);
  void merge();
  std::int64_t count() const;
  std::int64_t inner_size() const { return dims ? sizes[dims - 1] : 1; }
  std::int64_t inner_step() const { return dims ? steps[dims - 1] : 0; }
  // Offsets of element `index` in the input and in the result.
  std::array<std::int64_t, 2> offsets(std::int64_t index) const;
};

struct ReducePlan {
  ReducePlan(const NDArray& x, const NDArray& y, const Dims& axes);

  // Whether the innermost kept axis has the smallest step in the input: then adjacent results are computed
  // together.
  bool by_columns() const;

  AxisGroup kept, reduced;
};

}  // namespace heddle::cpu_kernels
