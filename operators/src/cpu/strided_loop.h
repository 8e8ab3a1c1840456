// Walks several arrays of one shape together, in parallel, in runs along the innermost axis.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>

#include <heddle/parallel.h>
#include <heddle/shape.h>

namespace heddle::cpu_kernels {

// Elements a chunk of an elementwise loop: enough to pay for handing it to another worker.
inline constexpr std::int64_t kElementGrain = 32768;

// parallel_for that costs nothing when one chunk is all there is.
template <class Body> void parallel_chunks(std::int64_t count, std::int64_t grain, const Body& body) {
  if (count <= 0) return;
  if (count <= grain) return body(std::int64_t{0}, count);
  parallel_for(count, grain, body);
}

// The iteration space of a kernel on N arrays. Axes are ordered by the last array's strides (the one written) and
// merged where no array sees a difference, so that inner runs are as long as they can be.
template <std::size_t N> class StridedLoop {
 public:
  using Offsets = std::array<std::int64_t, N>;

  StridedLoop(const Shape& shape, const std::array<Strides, N>& strides) {
    for (int axis = 0; axis < shape.size(); ++axis) {
      if (shape[axis] != 1) insert(shape[axis], at_axis(strides, axis));
    }
    merge();
    if (dims_ == 0) dims_ = 1, sizes_[0] = 1, steps_[0] = {};
    for (int d = 0; d < dims_; ++d) count_ *= sizes_[d];
  }

  // Of each array along the innermost axis.
  const Offsets& inner_steps() const { return steps_[dims_ - 1]; }

  // Calls body(offsets, n): n elements from `offsets` on (of each array, in elements), inner_steps() apart.
  template <class Body> void run(const Body& body) const {
    parallel_chunks(count_, kElementGrain,
                    [&](std::int64_t begin, std::int64_t end) { run_range(begin, end, body); });
  }

 private:
  static Offsets at_axis(const std::array<Strides, N>& strides, int axis) {
    Offsets steps;
    for (std::size_t k = 0; k < N; ++k) steps[k] = strides[k][axis];
    return steps;
  }

  void insert(std::int64_t size, const Offsets& steps) {
    int at = dims_++;
    while (at > 0 && std::abs(steps_[at - 1][N - 1]) < std::abs(steps[N - 1])) {
      sizes_[at] = sizes_[at - 1];
      steps_[at] = steps_[at - 1];
      --at;
    }
    sizes_[at] = size;
    steps_[at] = steps;
  }

  bool mergeable(int outer, int inner) const {
    for (std::size_t k = 0; k < N; ++k) {
      if (steps_[outer][k] != steps_[inner][k] * sizes_[inner]) return false;
    }
    return true;
  }

  void merge() {
    int last = 0;
    for (int d = 1; d < dims_; ++d) {
      if (mergeable(last, d)) {
        sizes_[last] *= sizes_[d];
        steps_[last] = steps_[d];
      } else {
        ++last;
        sizes_[last] = sizes_[d];
        steps_[last] = steps_[d];
      }
    }
    dims_ = std::min(dims_, last + 1);
  }

  template <class Body> void run_range(std::int64_t begin, std::int64_t end, const Body& body) const {
    std::array<std::int64_t, kMaxDims> index{};
    Offsets offsets{};
    std::int64_t rest = begin;
    for (int d = dims_ - 1; d >= 0; --d) {
      index[d] = rest % sizes_[d];
      rest /= sizes_[d];
      for (std::size_t k = 0; k < N; ++k) offsets[k] += index[d] * steps_[d][k];
    }
    const int inner = dims_ - 1;
    while (begin < end) {
      const std::int64_t n = std::min(end - begin, sizes_[inner] - index[inner]);
      body(offsets, n);
      begin += n;
      advance(index, offsets, n);
    }
  }

  void advance(std::array<std::int64_t, kMaxDims>& index, Offsets& offsets, std::int64_t n) const {
    int d = dims_ - 1;
    index[d] += n;
    for (std::size_t k = 0; k < N; ++k) offsets[k] += n * steps_[d][k];
    while (d > 0 && index[d] == sizes_[d]) {
      for (std::size_t k = 0; k < N; ++k) offsets[k] += steps_[d - 1][k] - sizes_[d] * steps_[d][k];
      index[d] = 0;
      ++index[--d];
    }
  }

  int dims_ = 0;
  std::int64_t count_ = 1;
  std::array<std::int64_t, kMaxDims> sizes_{};
  std::array<Offsets, kMaxDims> steps_{};
};

}  // namespace heddle::cpu_kernels
