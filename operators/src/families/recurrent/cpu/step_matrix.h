// The matrix by which each step of a recurrent network multiplies its rows. It is copied once into panels that a product reads in
// order: BLAS would copy it again at each step.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include <heddle/parallel.h>

#include "cpu/gemm.h"
#include "cpu/scratch.h"
#include "families/recurrent/cpu/panel_lanes.h"

namespace heddle::cpu_kernels {

// c (R rows, kCount columns) = a (R, k) * a panel (k, kCount). Each sum is added in the order of k, whatever R is.
template <class T, int R>
void panel_product(std::int64_t k, const T* a, std::int64_t a_stride, const T* panel, T* c,
                   std::int64_t c_stride) {
  using Lanes = typename PanelLanes<T>::Type;
  const auto* const b = reinterpret_cast<const Lanes*>(panel);
  Lanes sums[R] = {};
  for (std::int64_t l = 0; l < k; ++l) {
    const Lanes line = b[l];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) sums[r] += a[r * a_stride + l] * line;
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) *reinterpret_cast<Lanes*>(c + r * c_stride) = sums[r];
}

// c (R rows, `panels` * kCount columns) = a (R, k) * adjacent panels, P of them at a time: one panel alone has too few sums for the
// processor's units. The numbers are those of panel_product().
template <class T, int R, int P>
void panels_product(std::int64_t panels, std::int64_t k, const T* a, std::int64_t a_stride, const T* panel,
                    T* c, std::int64_t c_stride) {
  using Lanes = typename PanelLanes<T>::Type;
  constexpr std::int64_t kCount = PanelLanes<T>::kCount;
  for (; panels >= P; panels -= P, panel += P * kCount * k, c += P * kCount) {
    Lanes sums[R][P] = {};
    for (std::int64_t l = 0; l < k; ++l)
#pragma GCC unroll 8
      for (int p = 0; p < P; ++p) {
        const Lanes line = reinterpret_cast<const Lanes*>(panel + p * kCount * k)[l];
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r) sums[r][p] += a[r * a_stride + l] * line;
      }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
      for (int p = 0; p < P; ++p) *reinterpret_cast<Lanes*>(c + r * c_stride + p * kCount) = sums[r][p];
  }
  if constexpr (P > 1)
    if (panels > 0) panels_product<T, R, P - 1>(panels, k, a, a_stride, panel, c, c_stride);
}

// panel_product() for 0 to R rows.
template <class T, int R>
void panel_rows(std::int64_t rows, std::int64_t k, const T* a, std::int64_t a_stride, const T* panel, T* c,
                std::int64_t c_stride) {
  if (rows == R) return panel_product<T, R>(k, a, a_stride, panel, c, c_stride);
  if constexpr (R > 1) panel_rows<T, R - 1>(rows, k, a, a_stride, panel, c, c_stride);
}

// A matrix (k, groups * n) whose columns are products' results in `groups` groups. Blocks of columns are a number of panels.
template <class T> class StepMatrix {
 public:
  static constexpr std::int64_t kLanes = PanelLanes<T>::kCount, kRows = 8;

  // `memory`: rows of k elements if `transposed`, groups * n of them; else k rows of n elements, and groups is 1. It outlives this
  // object. A matrix that is used for a few steps only is not copied.
  StepMatrix(const T* memory, bool transposed, std::int64_t k, std::int64_t groups, std::int64_t n,
             std::int64_t steps)
      : memory_(memory), transposed_(transposed), k_(k), groups_(groups), n_(n) {
    constexpr std::int64_t kFewSteps = 4;
    panels_ = (n + kLanes - 1) / kLanes;
    if (steps < kFewSteps) return;
    packed_.emplace(static_cast<std::size_t>(groups * panels_ * kLanes * k) * sizeof(T));
    parallel_for(groups * panels_, std::max<std::int64_t>(1, 65536 / (kLanes * std::max<std::int64_t>(k, 1))),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t panel = begin; panel < end; ++panel) pack(panel);
                 });
  }

  // Elements between the groups of a tile, for a block of columns [begin, end).
  static std::int64_t tile_width(std::int64_t begin, std::int64_t end) {
    return (end - begin + kLanes - 1) / kLanes * kLanes;
  }

  // tile (rows, groups, tile_width) = a (rows, k) * the columns [begin, end) of each group; begin is a multiple of kLanes. The
  // tile is 64-byte aligned; elements from end on are undetermined.
  void multiply(std::int64_t rows, const T* a, std::int64_t a_stride, std::int64_t begin, std::int64_t end,
                T* tile) const {
    const std::int64_t width = tile_width(begin, end), stride = groups_ * width;
    for (std::int64_t group = 0; group < groups_; ++group) {
      T* const c = tile + group * width;
      if (!packed_) {
        const std::int64_t column = group * n_ + begin;
        const GemmOperand<T> b{memory_ + (transposed_ ? column * k_ : column),
                               std::max<std::int64_t>(1, transposed_ ? k_ : n_), transposed_};
        gemm(rows, end - begin, k_, {a, std::max<std::int64_t>(1, a_stride), false}, b, c, stride, false);
        continue;
      }
      const T* const first =
          packed_->template as<const T>() + (group * panels_ + begin / kLanes) * kLanes * k_;
      if (rows == 1) {
        panels_product<T, 1, 8>(width / kLanes, k_, a, a_stride, first, c, stride);
        continue;
      }
      if (rows == 2) {
        panels_product<T, 2, 4>(width / kLanes, k_, a, a_stride, first, c, stride);
        continue;
      }
      for (std::int64_t part = 0; part < width; part += kLanes) {
        const T* const panel = first + part * k_;
        for (std::int64_t row = 0; row < rows; row += kRows)
          panel_rows<T, kRows>(std::min(kRows, rows - row), k_, a + row * a_stride, a_stride, panel,
                               c + row * stride + part, stride);
      }
    }
  }

 private:
  void pack(std::int64_t index) const {
    const std::int64_t group = index / panels_, first = index % panels_ * kLanes,
                       columns = std::min(kLanes, n_ - first);
    T* const to = packed_->template as<T>() + index * kLanes * k_;
    if (columns < kLanes) std::fill_n(to, kLanes * k_, T{0});
    const std::int64_t column = group * n_ + first;
    std::int64_t done = 0;
#ifdef __AVX512F__  // else the exchanges are slower than what follows
    if (transposed_ && columns == kLanes)
      for (; done + kLanes <= k_; done += kLanes)
        transpose_square(memory_ + column * k_ + done, k_, to + done * kLanes);
#endif
    for (std::int64_t l = done; l < k_; ++l)
      for (std::int64_t j = 0; j < columns; ++j)
        to[l * kLanes + j] = memory_[transposed_ ? (column + j) * k_ + l : l * n_ + column + j];
  }

  const T* memory_;
  bool transposed_;
  std::int64_t k_, groups_, n_, panels_;
  std::optional<Scratch> packed_;
};

}  // namespace heddle::cpu_kernels
