// Loops of the linear algebra kernels over the matrices of a batch.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "cpu/library_threads.h"
#include "cpu/loops/chunks.h"
#include "families/linalg/kernels.h"

namespace heddle::cpu_kernels {

// The matrices of an array: `count` of them, rows x columns each.
struct Matrices {
  explicit Matrices(const NDArray& x)
      : count(1), rows(x.shape()[x.ndim() - 2]), columns(x.shape()[x.ndim() - 1]) {
    for (int axis = 0; axis < x.ndim() - 2; ++axis) count *= x.shape()[axis];
  }
  std::int64_t size() const { return rows * columns; }
  std::int64_t count, rows, columns;
};

// Calls body(i), which returns LAPACK's info, for each matrix. Throws for the first info that is not 0:
// "solve: matrix (1, 0) WHAT", with WHAT = explain(info). `flops`, the cost of one matrix, decides how many
// matrices a worker takes at a time.
template <class Body, class Explain>
void for_each_matrix(const LinalgCall& call, double flops, const Body& body, const Explain& explain) {
  const NDArray& x = call.in[0];
  const std::int64_t count = Matrices(x).count;
  const auto grain = static_cast<std::int64_t>(std::max(1.0, 1e5 / std::max(1.0, flops)));
  std::vector<int> infos(static_cast<std::size_t>(count), 0);
  parallel_chunks(count, grain, [&](std::int64_t begin, std::int64_t end) {
    const OneLibraryThread one;
    for (std::int64_t i = begin; i < end; ++i) infos[static_cast<std::size_t>(i)] = body(i);
  });
  const auto wrong = std::find_if(infos.begin(), infos.end(), [](int info) { return info != 0; });
  if (wrong == infos.end()) return;
  linalg_errors::refuse(call.op, x.shape(), wrong - infos.begin(), explain(*wrong));
}

// to (columns, rows) = the transpose of from (rows, columns): converts between row-major and column-major.
template <class T> void transpose_matrix(const T* from, std::int64_t rows, std::int64_t columns, T* to) {
  constexpr std::int64_t kBlock = 16;
  for (std::int64_t i = 0; i < rows; i += kBlock) {
    for (std::int64_t j = 0; j < columns; j += kBlock) {
      for (std::int64_t r = i; r < std::min(rows, i + kBlock); ++r) {
        for (std::int64_t c = j; c < std::min(columns, j + kBlock); ++c)
          to[c * rows + r] = from[r * columns + c];
      }
    }
  }
}

template <class T> void set_identity(T* x, std::int64_t n) {
  std::fill_n(x, n * n, T(0));
  for (std::int64_t i = 0; i < n; ++i) x[i * (n + 1)] = 1;
}

template <class T> bool all_finite(const T* x, std::int64_t count) {
  return std::all_of(x, x + count, [](T value) { return std::isfinite(value); });
}

inline double cube(std::int64_t n) {
  return static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
}

}  // namespace heddle::cpu_kernels
