// The matrix of a recurrent network's steps, rounded to halves: products with rows that are rounded too, with sums in f32.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include <heddle/half.h>

#include "cpu/gemm_half.h"
#include "families/recurrent/cpu/products.h"
#include "families/recurrent/cpu/step_matrix.h"

#ifdef __AVX512BF16__
#include <immintrin.h>
#endif

namespace heddle::cpu_kernels {

// StepMatrix of H (f16 or bf16): the numbers of a StepMatrix<float>, rounded to H.
template <class H> class RoundedStepMatrix {
 public:
  static constexpr std::int64_t kLanes = StepMatrix<float>::kLanes;
  static std::int64_t tile_width(std::int64_t begin, std::int64_t end) {
    return StepMatrix<float>::tile_width(begin, end);
  }

  RoundedStepMatrix(const float* memory, bool transposed, std::int64_t k, std::int64_t groups, std::int64_t n,
                    std::int64_t steps)
      : k_(k),
        rounded_(groups * n * k),
        matrix_(rounded(memory, groups * n * k, rounded_.data()), transposed, k, groups, n, steps) {}

  void multiply(std::int64_t rows, const float* a, std::int64_t a_stride, std::int64_t begin,
                std::int64_t end, float* tile) const {
    const ScratchOf<float> left(rows * k_);
    for (std::int64_t row = 0; row < rows; ++row) rounded(a + row * a_stride, k_, left.data() + row * k_);
    matrix_.multiply(rows, left.data(), k_, begin, end, tile);
  }

 private:
  static const float* rounded(const float* from, std::int64_t count, float* to) {
    std::transform(from, from + count, to, [](float x) { return static_cast<float>(H(x)); });
    return to;
  }
  std::int64_t k_;
  ScratchOf<float> rounded_;
  StepMatrix<float> matrix_;
};

#ifdef __AVX512BF16__

// c (R rows, 16 columns) = a (R, 2 * pairs) * a panel of pairs: line l has elements 2 l and 2 l + 1 of each column.
template <int R>
void pair_product(std::int64_t pairs, const BFloat16* a, std::int64_t a_stride, const BFloat16* panel,
                  float* c, std::int64_t c_stride) {
  __m512 sums[R];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) sums[r] = _mm512_setzero_ps();
  for (std::int64_t l = 0; l < pairs; ++l) {
    const auto line = reinterpret_cast<__m512bh>(_mm512_load_si512(panel + l * 32));
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      std::int32_t pair;
      std::memcpy(&pair, a + r * a_stride + 2 * l, sizeof pair);
      sums[r] = _mm512_dpbf16_ps(sums[r], reinterpret_cast<__m512bh>(_mm512_set1_epi32(pair)), line);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) _mm512_store_ps(c + r * c_stride, sums[r]);
}

template <int R>
void pair_rows(std::int64_t rows, std::int64_t pairs, const BFloat16* a, std::int64_t a_stride,
               const BFloat16* panel, float* c, std::int64_t c_stride) {
  if (rows == R) return pair_product<R>(pairs, a, a_stride, panel, c, c_stride);
  if constexpr (R > 1) pair_rows<R - 1>(rows, pairs, a, a_stride, panel, c, c_stride);
}
// By the machine's instructions for bf16, from panels of pairs.
template <> class RoundedStepMatrix<BFloat16> {
 public:
  static constexpr std::int64_t kLanes = 16, kRows = 8;
  static std::int64_t tile_width(std::int64_t begin, std::int64_t end) {
    return (end - begin + kLanes - 1) / kLanes * kLanes;
  }

  RoundedStepMatrix(const float* memory, bool transposed, std::int64_t k, std::int64_t groups, std::int64_t n,
                    std::int64_t)
      : groups_(groups),
        pairs_((k + 1) / 2),
        k_(k),
        panels_((n + kLanes - 1) / kLanes),
        packed_(groups * panels_ * kLanes * 2 * pairs_) {
    parallel_for(groups * panels_, std::max<std::int64_t>(1, 65536 / (kLanes * std::max<std::int64_t>(k, 1))),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t index = begin; index < end; ++index) {
                     const std::int64_t first = index % panels_ * kLanes;
                     pack(memory, transposed, n, index / panels_ * n + first, std::min(kLanes, n - first),
                          packed_.data() + index * kLanes * 2 * pairs_);
                   }
                 });
  }

  void multiply(std::int64_t rows, const float* a, std::int64_t a_stride, std::int64_t begin,
                std::int64_t end, float* tile) const {
    const std::int64_t width = tile_width(begin, end), stride = groups_ * width;
    const ScratchOf<BFloat16> left(rows * 2 * pairs_);
    for (std::int64_t row = 0; row < rows; ++row) {
      BFloat16* const to = left.data() + row * 2 * pairs_;
      narrow(a + row * a_stride, to, static_cast<std::size_t>(k_));
      if (k_ % 2 != 0) to[k_] = BFloat16(0);
    }
    for (std::int64_t group = 0; group < groups_; ++group)
      for (std::int64_t part = 0; part < width; part += kLanes) {
        const BFloat16* const panel =
            packed_.data() + (group * panels_ + (begin + part) / kLanes) * kLanes * 2 * pairs_;
        for (std::int64_t row = 0; row < rows; row += kRows)
          pair_rows<kRows>(std::min(kRows, rows - row), pairs_, left.data() + row * 2 * pairs_, 2 * pairs_,
                           panel, tile + row * stride + group * width + part, stride);
      }
  }

 private:
  void pack(const float* memory, bool transposed, std::int64_t n, std::int64_t column, std::int64_t columns,
            BFloat16* to) const {
    std::fill_n(to, kLanes * 2 * pairs_, BFloat16(0));
    for (std::int64_t l = 0; l < k_; ++l)
      for (std::int64_t j = 0; j < columns; ++j)
        to[l / 2 * 2 * kLanes + 2 * j + l % 2] =
            BFloat16(memory[transposed ? (column + j) * k_ + l : l * n + column + j]);
  }
  std::int64_t groups_, pairs_, k_, panels_;
  ScratchOf<BFloat16> packed_;
};

#endif

template <class T, class H>
using MatrixOfSteps = std::conditional_t<is_half_type<H>, RoundedStepMatrix<H>, StepMatrix<T>>;

// Calls fn.operator()<T, H>() with the type of the arrays and that of operands of products.
template <class F> void visit_products(const RecurrentProblem& p, DType dtype, const F& fn) {
  if (dtype == DType::f64) return fn.template operator()<double, double>();
  if (p.products == DType::bf16) return fn.template operator()<float, BFloat16>();
  if (p.products == DType::f16) return fn.template operator()<float, Float16>();
  fn.template operator()<float, float>();
}

}  // namespace heddle::cpu_kernels
