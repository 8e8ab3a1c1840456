// Cuts a matrix product (m, k) * (k, n) into tiles for parallel_for. The tiles depend on m, n and k alone.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cpu/gemm.h"

namespace heddle::cpu_kernels {

struct GemmTiles {
  std::int64_t m, n, k;
  std::int64_t rows, columns;  // size of a tile; the last ones are smaller
  std::int64_t down, across;   // number of tiles

  GemmTiles(std::int64_t m_, std::int64_t n_, std::int64_t k_) : m(m_), n(n_), k(k_), rows(m_), columns(n_) {
    // Each tile packs its part of both matrices first, which pays off only for large tiles. So there are at
    // most 32 tiles, of at least 30 microseconds each.
    constexpr double kLeast = 8e6;
    const double flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
    if (flops > kLeast) {
      const double area = std::max(flops / 32, kLeast) / (2.0 * static_cast<double>(k));
      std::int64_t side = 32;
      while (static_cast<double>(side * side) < area) side += 32;
      rows = std::min(m, side);
      columns = std::min(n, round_up(area / static_cast<double>(rows)));
      rows = std::min(m, round_up(area / static_cast<double>(columns)));
    }
    down = m ? (m + rows - 1) / rows : 0;
    across = n ? (n + columns - 1) / columns : 0;
  }
  std::int64_t count() const { return down * across; }
  double flops() const {
    return 2.0 * static_cast<double>(rows) * static_cast<double>(columns) * static_cast<double>(k);
  }

  struct Tile {
    std::int64_t row, column, rows, columns;
  };
  Tile operator[](std::int64_t index) const {
    const std::int64_t row = index / across * rows, column = index % across * columns;
    return {row, column, std::min(rows, m - row), std::min(columns, n - column)};
  }

 private:
  static std::int64_t round_up(double value) {
    return std::max<std::int64_t>(32, (static_cast<std::int64_t>(value) + 31) / 32 * 32);
  }
};

// The rows of a, and the columns of b, that a tile of a * b is computed of.
template <class T> GemmOperand<T> rows_of(GemmTiles::Tile tile, GemmOperand<T> a) {
  return {a.data + tile.row * (a.transposed ? 1 : a.stride), a.stride, a.transposed};
}
template <class T> GemmOperand<T> columns_of(GemmTiles::Tile tile, GemmOperand<T> b) {
  return {b.data + tile.column * (b.transposed ? b.stride : 1), b.stride, b.transposed};
}

// One tile of c = a * b; c's rows are `ldc` apart.
template <class T, class C>
void gemm_tile(const GemmTiles& tiles, GemmTiles::Tile tile, GemmOperand<T> a, GemmOperand<T> b, C* c,
               std::int64_t ldc, bool accumulate) {
  gemm(tile.rows, tile.columns, tiles.k, rows_of(tile, a), columns_of(tile, b),
       c + tile.row * ldc + tile.column, ldc, accumulate);
}

}  // namespace heddle::cpu_kernels
