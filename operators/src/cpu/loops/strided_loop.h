// Iterates over several arrays of one shape together, in parallel, in runs along the innermost axis.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <heddle/shape.h>

#include "cpu/loops/chunks.h"

namespace heddle::cpu_kernels {

// The iteration space of a kernel on N arrays, 1 to 4. Axes are ordered by the strides of the last array,
// which is written, and merged where that is possible in all arrays, so that inner runs are as long as
// possible.
template <std::size_t N> class StridedLoop {
 public:
  using Offsets = std::array<std::int64_t, N>;
  // Processes n elements from `offsets` on (one offset for each array), inner_steps() apart.
  using Body = FunctionRef<void(const Offsets& offsets, std::int64_t n)>;

  StridedLoop(const Shape& shape, const std::array<Strides, N>& strides);

  // The step of each array along the innermost axis.
  const Offsets& inner_steps() const { return steps_[dims_ - 1]; }

  // Calls body for all elements, in chunks of `grain`.
  void run(Body body, std::int64_t grain = kElementGrain) const;

 private:
  void insert(std::int64_t size, const Offsets& steps);
  bool mergeable(int outer, int inner) const;
  void merge();
  bool transposed() const;
  void run_tiles(Body body) const;
  void run_strip(Offsets corner, std::int64_t rows, std::int64_t columns, Body body) const;
  void run_range(std::int64_t begin, std::int64_t end, Body body) const;
  Offsets offsets_of(std::int64_t index, int last) const;
  void advance(std::array<std::int64_t, kMaxDims>& index, Offsets& offsets, std::int64_t n) const;

  int dims_ = 0;
  std::int64_t count_ = 1;
  std::array<std::int64_t, kMaxDims> sizes_{};
  std::array<Offsets, kMaxDims> steps_{};
};

extern template class StridedLoop<1>;
extern template class StridedLoop<2>;
extern template class StridedLoop<3>;
extern template class StridedLoop<4>;

}  // namespace heddle::cpu_kernels
