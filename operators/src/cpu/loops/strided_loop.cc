#include "cpu/loops/strided_loop.h"

#include <algorithm>
#include <cstdlib>

namespace heddle::cpu_kernels {

namespace {

constexpr std::int64_t kTileSide = 16;

template <std::size_t N>
void shift(std::array<std::int64_t, N>& offsets, const std::array<std::int64_t, N>& steps, std::int64_t n) {
  for (std::size_t k = 0; k < N; ++k) offsets[k] += n * steps[k];
}

}  // namespace

template <std::size_t N>
StridedLoop<N>::StridedLoop(const Shape& shape, const std::array<Strides, N>& strides) {
  for (int axis = 0; axis < shape.size(); ++axis) {
    Offsets steps;
    for (std::size_t k = 0; k < N; ++k) steps[k] = strides[k][axis];
    if (shape[axis] != 1) insert(shape[axis], steps);
  }
  merge();
  if (dims_ == 0) sizes_[dims_++] = 1;
  for (int d = 0; d < dims_; ++d) count_ *= sizes_[d];
}

template <std::size_t N> void StridedLoop<N>::insert(std::int64_t size, const Offsets& steps) {
  int at = dims_++;
  while (at > 0 && std::abs(steps_[at - 1][N - 1]) < std::abs(steps[N - 1])) {
    sizes_[at] = sizes_[at - 1];
    steps_[at] = steps_[at - 1];
    --at;
  }
  sizes_[at] = size;
  steps_[at] = steps;
}

template <std::size_t N> bool StridedLoop<N>::mergeable(int outer, int inner) const {
  for (std::size_t k = 0; k < N; ++k) {
    if (steps_[outer][k] != steps_[inner][k] * sizes_[inner]) return false;
  }
  return true;
}

template <std::size_t N> void StridedLoop<N>::merge() {
  int last = 0;
  for (int d = 1; d < dims_; ++d) {
    const bool fits = mergeable(last, d);
    if (!fits) ++last;
    sizes_[last] = fits ? sizes_[last] * sizes_[d] : sizes_[d];
    steps_[last] = steps_[d];
  }
  dims_ = std::min(dims_, last + 1);
}

template <std::size_t N> void StridedLoop<N>::run(Body body, std::int64_t grain) const {
  if (grain == kElementGrain && transposed()) return run_tiles(body);
  parallel_chunks(count_, grain, [&](std::int64_t begin, std::int64_t end) { run_range(begin, end, body); });
}

// Whether the last axis but one is contiguous in some array, in which each element of a row is then on
// another cache line.
template <std::size_t N> bool StridedLoop<N>::transposed() const {
  if (dims_ < 2 || sizes_[dims_ - 1] < kTileSide || sizes_[dims_ - 2] < kTileSide) return false;
  for (std::size_t k = 0; k < N; ++k) {
    if (std::abs(steps_[dims_ - 1][k]) >= kTileSide && std::abs(steps_[dims_ - 2][k]) == 1) return true;
  }
  return false;
}

// Iterates over the last two axes in square tiles, whose cache lines stay in the cache. Chunks are strips of rows.
template <std::size_t N> void StridedLoop<N>::run_tiles(Body body) const {
  const std::int64_t rows = sizes_[dims_ - 2], columns = sizes_[dims_ - 1];
  const std::int64_t strips = (rows + kTileSide - 1) / kTileSide;
  const std::int64_t grain = std::max<std::int64_t>(1, kElementGrain / (kTileSide * columns));
  parallel_chunks(count_ / rows / columns * strips, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t strip = begin; strip < end; ++strip) {
      const std::int64_t first = strip % strips * kTileSide, high = std::min(kTileSide, rows - first);
      run_strip(offsets_of(strip / strips * rows + first, dims_ - 2), high, columns, body);
    }
  });
}

template <std::size_t N>
void StridedLoop<N>::run_strip(Offsets corner, std::int64_t rows, std::int64_t columns, Body body) const {
  for (std::int64_t column = 0; column < columns; column += kTileSide) {
    Offsets at = corner;
    for (std::int64_t row = 0; row < rows; ++row) {
      body(at, std::min(kTileSide, columns - column));
      shift(at, steps_[dims_ - 2], 1);
    }
    shift(corner, steps_[dims_ - 1], kTileSide);
  }
}

// The offsets of the index-th element of axes 0 .. last.
template <std::size_t N> auto StridedLoop<N>::offsets_of(std::int64_t index, int last) const -> Offsets {
  Offsets offsets{};
  for (int d = last; d >= 0; index /= sizes_[d--]) shift(offsets, steps_[d], index % sizes_[d]);
  return offsets;
}

template <std::size_t N>
void StridedLoop<N>::run_range(std::int64_t begin, std::int64_t end, Body body) const {
  std::array<std::int64_t, kMaxDims> index{};
  Offsets offsets = offsets_of(begin, dims_ - 1);
  for (std::int64_t d = dims_ - 1, rest = begin; d >= 0; rest /= sizes_[d--]) index[d] = rest % sizes_[d];
  const int inner = dims_ - 1;
  while (begin < end) {
    const std::int64_t n = std::min(end - begin, sizes_[inner] - index[inner]);
    body(offsets, n);
    begin += n;
    advance(index, offsets, n);
  }
}

template <std::size_t N>
void StridedLoop<N>::advance(std::array<std::int64_t, kMaxDims>& index, Offsets& offsets,
                             std::int64_t n) const {
  int d = dims_ - 1;
  index[d] += n;
  shift(offsets, steps_[d], n);
  while (d > 0 && index[d] == sizes_[d]) {
    shift(offsets, steps_[d], -sizes_[d]);
    shift(offsets, steps_[d - 1], 1);
    index[d] = 0;
    ++index[--d];
  }
}

template class StridedLoop<1>;
template class StridedLoop<2>;
template class StridedLoop<3>;
template class StridedLoop<4>;

}  // namespace heddle::cpu_kernels
