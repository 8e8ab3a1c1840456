// What the kernels of recurrent networks, forward and backward, share.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <heddle/parallel.h>

#include "cpu/gemm.h"
#include "cpu/gemm_half.h"
#include "cpu/scratch.h"
#include "families/products/cpu/gemm_tiles.h"
#include "families/recurrent/cpu/sequences.h"

namespace heddle::cpu_kernels {

// Memory of an array; null if the array is undefined.
template <class T> const T* read_or_null(const NDArray& array) {
  return array.defined() ? array.data<const T>() : nullptr;
}
template <class T> T* write_or_null(const NDArray& array) {
  return array.defined() ? array.data<T>() : nullptr;
}

// `count` elements of scratch memory.
template <class T> class ScratchOf {
 public:
  explicit ScratchOf(std::int64_t count) : memory_(static_cast<std::size_t>(count) * sizeof(T)) {}
  T* data() const { return memory_.template as<T>(); }

 private:
  Scratch memory_;
};

// A matrix product by all workers.
template <class T>
void parallel_product(std::int64_t m, std::int64_t n, std::int64_t k, GemmOperand<T> a, GemmOperand<T> b,
                      T* c, std::int64_t c_stride, bool accumulate = false) {
  a.stride = std::max<std::int64_t>(1, a.stride);
  b.stride = std::max<std::int64_t>(1, b.stride);
  const GemmTiles tiles(m, n, k);
  parallel_for(tiles.count(), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      gemm_tile<T>(tiles, tiles[i], a, b, c, std::max<std::int64_t>(1, c_stride), accumulate);
  });
}

// The elements of an operand rounded to H, with adjacent rows in memory.
template <class H> class RoundedOperand {
 public:
  RoundedOperand(std::int64_t rows, std::int64_t columns, const GemmOperand<float>& from)
      : width_(from.transposed ? rows : columns), transposed_(from.transposed), memory_(rows * columns) {
    constexpr std::int64_t kGrain = 32768;  // elements
    const std::int64_t lines = from.transposed ? columns : rows,
                       grain = std::max<std::int64_t>(1, kGrain / std::max<std::int64_t>(1, width_));
    parallel_for(lines, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        narrow(from.data + i * from.stride, memory_.data() + i * width_, static_cast<std::size_t>(width_));
    });
  }
  GemmOperand<H> operand() const { return {memory_.data(), std::max<std::int64_t>(1, width_), transposed_}; }

 private:
  std::int64_t width_;
  bool transposed_;
  ScratchOf<H> memory_;
};

// The same of operands that are rounded to H. H = T: not rounded.
template <class H, class T>
void rounded_product(std::int64_t m, std::int64_t n, std::int64_t k, GemmOperand<T> a, GemmOperand<T> b, T* c,
                     std::int64_t c_stride, bool accumulate = false) {
  if constexpr (is_half_type<H>) {
    const RoundedOperand<H> left(m, k, a), right(k, n, b);
    const GemmTiles tiles(m, n, k);
    parallel_for(tiles.count(), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        gemm_tile<H>(tiles, tiles[i], left.operand(), right.operand(), c, std::max<std::int64_t>(1, c_stride),
                     accumulate);
    });
  } else {
    parallel_product<T>(m, n, k, a, b, c, c_stride, accumulate);
  }
}

// The rows of a step are computed in blocks of units, one a task, for at most kBlockRows rows at once.
constexpr std::int64_t kBlockRows = 64;

inline std::int64_t units_of_block(const RecurrentProblem& p) {
  constexpr double kLeast = 4e6;  // floating-point operations of a task
  constexpr std::int64_t kStep = 16, kMost = 128;
  const double each = 2.0 * static_cast<double>(p.batch) * static_cast<double>(p.gates() * p.hidden);
  const double wanted = std::min(static_cast<double>(kMost), kLeast / std::max(each, 1.0));
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(wanted) / kStep) * kStep;
}

// Calls body(begin, end) for each block of `count` units, or numbers of the state, on all workers.
template <class Body> void for_each_block(const RecurrentProblem& p, std::int64_t count, const Body& body) {
  const std::int64_t units = units_of_block(p), blocks = (count + units - 1) / units;
  parallel_for(blocks, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t block = first; block < last; ++block)
      body(block * units, std::min(count, (block + 1) * units));
  });
}

// The rows of x in the order of `sequences`: x itself, or a copy in `memory`.
template <class T>
const T* rows_of_x(const RecurrentProblem& p, const Sequences& sequences, const T* x, T* memory) {
  if (sequences.in_place()) return x;
  sequences.for_each_row(p.features, [&](std::int64_t step, std::int64_t i) {
    std::copy_n(x + sequences.place(step, i) * p.features, p.features,
                memory + sequences.row(step, i) * p.features);
  });
  return memory;
}

// A state (batch, width) with its rows in the order of `sequences`. Null: 0.
template <class T>
void sort_state(const RecurrentProblem& p, std::int64_t width, const Sequences& sequences, const T* state,
                T* sorted) {
  for (std::int64_t i = 0; i < p.batch; ++i) {
    if (state) {
      std::copy_n(state + sequences.element(i) * width, width, sorted + i * width);
    } else {
      std::fill_n(sorted + i * width, width, T{0});
    }
  }
}

}  // namespace heddle::cpu_kernels
