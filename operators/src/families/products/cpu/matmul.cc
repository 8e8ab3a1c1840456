// Kernels of matrix products, which cut them into tiles for the workers.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <type_traits>
#include <vector>

#include <heddle/parallel.h>

#include "core/kernel_table.h"
#include "cpu/floating.h"
#include "families/products/cpu/gemm_tiles.h"
#include "families/products/kernels.h"

namespace heddle::cpu_kernels {
namespace {

constexpr std::int64_t kSumColumns = 256;  // columns that one task sums

constexpr std::int64_t kShortSum = 64;  // most products of matrices that are added up in f32

// Computes one tile of the sum of many products: adds up short sums in f32, and those sums in f64.
void sum_tile(const MatmulProblem& problem, const GemmTiles& tiles, GemmTiles::Tile tile,
              const MatmulProblem::Step* steps, const float* a, const float* b, float* y) {
  const std::int64_t size = tile.rows * tile.columns;
  std::vector<float> part(static_cast<std::size_t>(size));
  std::vector<double> sums(part.size(), 0);
  const GemmTiles::Tile alone{0, 0, tile.rows, tile.columns};
  const std::int64_t down = tile.row * (problem.a.transposed ? 1 : problem.a.stride),
                     across = tile.column * (problem.b.transposed ? problem.b.stride : 1);
  for (std::int64_t begin = 0; begin < problem.terms; begin += kShortSum) {
    for (std::int64_t i = begin; i < std::min(begin + kShortSum, problem.terms); ++i) {
      gemm_tile<float>(tiles, alone, {a + steps[i].a + down, problem.a.stride, problem.a.transposed},
                       {b + steps[i].b + across, problem.b.stride, problem.b.transposed}, part.data(),
                       tile.columns, i > begin);
    }
    std::transform(part.begin(), part.end(), sums.begin(), sums.begin(), std::plus<>());
  }
  for (std::int64_t i = 0; i < size; ++i) {
    y[(tile.row + i / tile.columns) * problem.n + tile.column + i % tile.columns] =
        static_cast<float>(sums[static_cast<std::size_t>(i)]);
  }
}

void matmul_kernel(const KernelContext&, const MatmulProblem& problem, const NDArray& a, const NDArray& b,
                   const NDArray& y) {
  const GemmTiles tiles(problem.m, problem.n, problem.k);
  if (tiles.count() == 0 || problem.steps.empty()) return;
  const std::int64_t results = static_cast<std::int64_t>(problem.steps.size()) / problem.terms;
  const double flops = std::max(1.0, tiles.flops() * static_cast<double>(problem.terms));
  const std::int64_t grain = std::max<std::int64_t>(1, static_cast<std::int64_t>(4e6 / flops));
  visit_number(y.dtype(), [&]<class T>() {
    const T *a_data = a.data<const T>(), *b_data = b.data<const T>();
    T* y_data = y.data<T>();
    parallel_for(results * tiles.count(), grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t task = begin; task < end; ++task) {
        const std::int64_t result = task / tiles.count();
        if constexpr (std::is_same_v<T, float>) {
          if (problem.terms > kShortSum) {
            sum_tile(problem, tiles, tiles[task % tiles.count()],
                     problem.steps.data() + result * problem.terms, a_data, b_data,
                     y_data + result * problem.m * problem.n);
            continue;
          }
        }
        for (std::int64_t term = 0; term < problem.terms; ++term) {
          const auto& step = problem.steps[static_cast<std::size_t>(result * problem.terms + term)];
          gemm_tile<T>(tiles, tiles[task % tiles.count()],
                       {a_data + step.a, problem.a.stride, problem.a.transposed},
                       {b_data + step.b, problem.b.stride, problem.b.transposed},
                       y_data + result * problem.m * problem.n, problem.n, term > 0);
        }
      }
    });
  });
}

template <class T>
void add_bias(GemmTiles::Tile tile, const T* __restrict bias, T* __restrict y, std::int64_t stride,
              bool relu) {
  for (std::int64_t i = 0; i < tile.rows; ++i) {
    T* __restrict row = y + (tile.row + i) * stride + tile.column;
    if (bias) {
      for (std::int64_t j = 0; j < tile.columns; ++j) row[j] += bias[tile.column + j];
    }
    if (relu) {
      // NaN stays NaN.
      for (std::int64_t j = 0; j < tile.columns; ++j) row[j] = row[j] < T(0) ? T(0) : row[j];
    }
  }
}

void linear_kernel(const KernelContext&, const NDArray& x, const NDArray& weight, const NDArray& bias,
                   const NDArray& y, bool relu) {
  const std::int64_t in = x.shape()[1], out = y.shape()[1];
  const GemmTiles tiles(y.shape()[0], out, in);
  visit_floating(y.dtype(), [&]<class T>() {
    const T *x_data = x.data<const T>(), *w_data = weight.data<const T>();
    const T* b_data = bias.defined() ? bias.data<const T>() : nullptr;
    T* y_data = y.data<T>();
    parallel_for(tiles.count(), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        gemm_tile<T>(tiles, tiles[i], {x_data, std::max<std::int64_t>(in, 1), false},
                     {w_data, std::max<std::int64_t>(in, 1), true}, y_data, out, false);
        add_bias(tiles[i], b_data, y_data, out, relu);
      }
    });
  });
}

// Sums short blocks of rows in T and adds the blocks' sums pairwise in double: as fast as in T alone, but
// without its rounding errors in long columns.
template <class T>
void column_sums(const T* g, std::int64_t rows, std::int64_t stride, std::int64_t width, double* sums) {
  constexpr std::int64_t kRows = 64;
  if (rows > kRows) {
    const std::int64_t half = (rows / 2 + kRows - 1) / kRows * kRows;
    double rest[kSumColumns];
    column_sums(g, half, stride, width, sums);
    column_sums(g + half * stride, rows - half, stride, width, rest);
    for (std::int64_t j = 0; j < width; ++j) sums[j] += rest[j];
    return;
  }
  T part[kSumColumns] = {};
  for (std::int64_t i = 0; i < rows; ++i) {
    const T* row = g + i * stride;
    for (std::int64_t j = 0; j < width; ++j) part[j] += row[j];
  }
  std::copy(part, part + width, sums);
}

void column_sums_kernel(const KernelContext&, const NDArray& g, const NDArray& sums) {
  const std::int64_t rows = g.shape()[0], columns = g.shape()[1];
  visit_floating(g.dtype(), [&]<class T>() {
    const T* g_data = g.data<const T>();
    T* sums_data = sums.data<T>();
    parallel_for(columns, kSumColumns, [&](std::int64_t begin, std::int64_t end) {
      double sums_of_chunk[kSumColumns];
      column_sums(g_data + begin, rows, columns, end - begin, sums_of_chunk);
      for (std::int64_t j = begin; j < end; ++j) sums_data[j] = static_cast<T>(sums_of_chunk[j - begin]);
    });
  });
}

void relu_mask_kernel(const KernelContext&, const NDArray& g, const NDArray& y, const NDArray& out) {
  visit_floating(g.dtype(), [&]<class T>() {
    const T *g_data = g.data<const T>(), *y_data = y.data<const T>();
    T* out_data = out.data<T>();
    constexpr std::int64_t kGrain = 32768;
    parallel_for(g.size(), kGrain, [&](std::int64_t begin, std::int64_t end) {
      // Where y is NaN, out is g. A g that is read in any case leaves no branch in the loop.
      const T *const from = g_data, *const of = y_data;
      T* const to = out_data;
      for (std::int64_t i = begin; i < end; ++i) {
        const T value = from[i];
        to[i] = of[i] <= T(0) ? T(0) : value;
      }
    });
  });
}

}  // namespace

HEDDLE_CPU_KERNELS(matmul) {
  table.add<MatmulKernel>("matmul", DeviceKind::cpu, matmul_kernel);
  table.add<LinearKernel>("linear", DeviceKind::cpu, linear_kernel);
  table.add<ColumnSumsKernel>("column_sums", DeviceKind::cpu, column_sums_kernel);
  table.add<ReluMaskKernel>("relu_mask", DeviceKind::cpu, relu_mask_kernel);
}

}  // namespace heddle::cpu_kernels
