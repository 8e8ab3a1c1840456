// Kernels of matrix products, which cut them into tiles for the workers.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <type_traits>
#include <vector>

#include <heddle/parallel.h>

#include "core/kernel_table.h"
#include "cpu/floating.h"
#include "cpu/gemm_half.h"
#include "cpu/relu.h"
#include "cpu/scratch.h"
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

// One tile of the sum of products of halves. `y` is the result's memory, of f32 or of the halves' type.
template <class H, class Y>
void half_tile(const MatmulProblem& problem, const GemmTiles& tiles, GemmTiles::Tile tile,
               const MatmulProblem::Step* steps, const H* a, const H* b, Y* y) {
  const auto left = [&](std::int64_t term) {
    return rows_of<H>(tile, {a + steps[term].a, problem.a.stride, problem.a.transposed});
  };
  const auto right = [&](std::int64_t term) {
    return columns_of<H>(tile, {b + steps[term].b, problem.b.stride, problem.b.transposed});
  };
  Y* const to = y + tile.row * problem.n + tile.column;
  if constexpr (is_half_type<Y>) {
    if (problem.terms == 1) return gemm(tile.rows, tile.columns, tiles.k, left(0), right(0), to, problem.n);
    const Scratch room(static_cast<std::size_t>(tile.rows * tile.columns) * sizeof(float));
    auto* const sums = room.as<float>();
    for (std::int64_t term = 0; term < problem.terms; ++term)
      gemm(tile.rows, tile.columns, tiles.k, left(term), right(term), sums, tile.columns, term > 0);
    for (std::int64_t i = 0; i < tile.rows; ++i)
      narrow(sums + i * tile.columns, to + i * problem.n, static_cast<std::size_t>(tile.columns));
  } else {
    for (std::int64_t term = 0; term < problem.terms; ++term)
      gemm(tile.rows, tile.columns, tiles.k, left(term), right(term), to, problem.n, term > 0);
  }
}

template <class H>
void half_products(const MatmulProblem& problem, const GemmTiles& tiles, std::int64_t results,
                   std::int64_t grain, const NDArray& a, const NDArray& b, const NDArray& y) {
  const H *a_data = a.data<const H>(), *b_data = b.data<const H>();
  const auto run = [&]<class Y>(Y* y_data) {
    parallel_for(results * tiles.count(), grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t task = begin; task < end; ++task) {
        const std::int64_t result = task / tiles.count();
        half_tile(problem, tiles, tiles[task % tiles.count()], problem.steps.data() + result * problem.terms,
                  a_data, b_data, y_data + result * problem.m * problem.n);
      }
    });
  };
  y.dtype() == DType::f32 ? run(y.data<float>()) : run(y.data<H>());
}

void matmul_kernel(const KernelContext&, const MatmulProblem& problem, const NDArray& a, const NDArray& b,
                   const NDArray& y) {
  const GemmTiles tiles(problem.m, problem.n, problem.k);
  if (tiles.count() == 0 || problem.steps.empty()) return;
  const std::int64_t results = static_cast<std::int64_t>(problem.steps.size()) / problem.terms;
  const double flops = std::max(1.0, tiles.flops() * static_cast<double>(problem.terms));
  const std::int64_t grain = std::max<std::int64_t>(1, static_cast<std::int64_t>(4e6 / flops));
  if (a.dtype() == DType::bf16) return half_products<BFloat16>(problem, tiles, results, grain, a, b, y);
  if (a.dtype() == DType::f16) return half_products<Float16>(problem, tiles, results, grain, a, b, y);
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

// Each tile is summed in f32, with the bias, and rounded once.
template <class H>
void half_linear(const GemmTiles& tiles, const NDArray& x, const NDArray& weight, const NDArray& bias,
                 const NDArray& y, bool relu) {
  const bool narrow_bias = bias.defined() && bias.dtype() != DType::f32;
  const Scratch wide_bias(narrow_bias ? static_cast<std::size_t>(tiles.n) * sizeof(float) : 0);
  const float* bias_data = bias.defined() && !narrow_bias ? bias.data<const float>() : nullptr;
  if (narrow_bias) {
    widen(bias.data<const H>(), wide_bias.as<float>(), static_cast<std::size_t>(tiles.n));
    bias_data = wide_bias.as<const float>();
  }
  const std::int64_t stride = std::max<std::int64_t>(tiles.k, 1);
  const GemmOperand<H> left{x.data<const H>(), stride, false}, right{weight.data<const H>(), stride, true};
  H* const to = y.data<H>();
  parallel_for(tiles.count(), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const GemmTiles::Tile tile = tiles[i];
      const Scratch room(static_cast<std::size_t>(tile.rows * tile.columns) * sizeof(float));
      auto* const sums = room.as<float>();
      gemm(tile.rows, tile.columns, tiles.k, rows_of(tile, left), columns_of(tile, right), sums, tile.columns,
           false);
      add_bias({0, 0, tile.rows, tile.columns}, bias_data ? bias_data + tile.column : nullptr, sums,
               tile.columns, relu);
      for (std::int64_t row = 0; row < tile.rows; ++row)
        narrow(sums + row * tile.columns, to + (tile.row + row) * tiles.n + tile.column,
               static_cast<std::size_t>(tile.columns));
    }
  });
}

void linear_kernel(const KernelContext&, const NDArray& x, const NDArray& weight, const NDArray& bias,
                   const NDArray& y, bool relu) {
  const std::int64_t in = x.shape()[1], out = y.shape()[1];
  const GemmTiles tiles(y.shape()[0], out, in);
  if (y.dtype() == DType::bf16) return half_linear<BFloat16>(tiles, x, weight, bias, y, relu);
  if (y.dtype() == DType::f16) return half_linear<Float16>(tiles, x, weight, bias, y, relu);
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

// Sums short blocks of rows in T, halves in f32, and adds the blocks' sums pairwise in double: as fast as in T alone, but
// without its rounding errors in long columns.
template <class T>
void column_sums(const T* g, std::int64_t rows, std::int64_t stride, std::int64_t width, double* sums) {
  using Sum = ComputeType<T>;
  constexpr std::int64_t kRows = 64;
  if (rows > kRows) {
    const std::int64_t half = (rows / 2 + kRows - 1) / kRows * kRows;
    double rest[kSumColumns];
    column_sums(g, half, stride, width, sums);
    column_sums(g + half * stride, rows - half, stride, width, rest);
    for (std::int64_t j = 0; j < width; ++j) sums[j] += rest[j];
    return;
  }
  Sum part[kSumColumns] = {};
  for (std::int64_t i = 0; i < rows; ++i) {
    const T* row = g + i * stride;
    for (std::int64_t j = 0; j < width; ++j) part[j] += static_cast<Sum>(row[j]);
  }
  std::copy(part, part + width, sums);
}

template <class T, class Result> void sum_columns(const NDArray& g, Result* sums) {
  const std::int64_t rows = g.shape()[0], columns = g.shape()[1];
  const T* g_data = g.data<const T>();
  parallel_for(columns, kSumColumns, [&](std::int64_t begin, std::int64_t end) {
    double sums_of_chunk[kSumColumns];
    column_sums(g_data + begin, rows, columns, end - begin, sums_of_chunk);
    for (std::int64_t j = begin; j < end; ++j) sums[j] = static_cast<Result>(sums_of_chunk[j - begin]);
  });
}

void column_sums_kernel(const KernelContext&, const NDArray& g, const NDArray& sums) {
  visit_floating_or_half(g.dtype(), [&]<class T>() {
    if (sums.dtype() == g.dtype()) {
      sum_columns<T>(g, sums.data<T>());
    } else {
      sum_columns<T>(g, sums.data<float>());
    }
  });
}

void relu_mask_kernel(const KernelContext&, const NDArray& g, const NDArray& y, const NDArray& out) {
  visit_floating_or_half(g.dtype(), [&]<class T>() {
    const T *g_data = g.data<const T>(), *y_data = y.data<const T>();
    T* out_data = out.data<T>();
    constexpr std::int64_t kGrain = 32768;
    parallel_for(g.size(), kGrain, [&](std::int64_t begin, std::int64_t end) {
      relu_gradient(g_data + begin, y_data + begin, end - begin, out_data + begin);
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
