#include "families/products/cuda/stacks.h"

namespace heddle::cuda_kernels {

bool find_axes(const MatmulProblem::Step* steps, std::size_t count, std::size_t each, GemmAxes& axes) {
  axes.dims = 0;
  const auto a = [&](std::size_t i) { return steps[i * each].a - steps[0].a; };
  const auto b = [&](std::size_t i) { return steps[i * each].b - steps[0].b; };
  // From the fastest axis on: as many equal steps as there are.
  for (std::size_t inner = 1; inner < count;) {
    std::size_t size = 2;
    while (size * inner < count && a(size * inner) == a(inner) * static_cast<std::int64_t>(size) &&
           b(size * inner) == b(inner) * static_cast<std::int64_t>(size))
      ++size;
    if (count % (inner * size) != 0 || axes.dims == GemmAxes::kMost) return false;
    for (int d = axes.dims++; d > 0; --d) {
      axes.sizes[d] = axes.sizes[d - 1];
      axes.a[d] = axes.a[d - 1];
      axes.b[d] = axes.b[d - 1];
    }
    axes.sizes[0] = static_cast<long long>(size);
    axes.a[0] = a(inner);
    axes.b[0] = b(inner);
    inner *= size;
  }
  for (std::size_t i = 0; i < count; ++i) {
    long long in_a = 0, in_b = 0, rest = static_cast<long long>(i);
    for (int d = axes.dims - 1; d >= 0; --d) {
      in_a += rest % axes.sizes[d] * axes.a[d];
      in_b += rest % axes.sizes[d] * axes.b[d];
      rest /= axes.sizes[d];
    }
    if (in_a != a(i) || in_b != b(i)) return false;
  }
  return true;
}

namespace {

// How far `count` steps along an axis of a matrix are in memory.
long long along(const GemmMatrix& matrix, bool rows, long long count) {
  return rows == !matrix.transposed ? matrix.stride * count : count;
}

}  // namespace

void merge_axes(Gemm& g) {
  while (g.terms.dims > 0) {
    const int last = g.terms.dims - 1;
    if (g.terms.a[last] != along(g.a, false, g.k) || g.terms.b[last] != along(g.b, true, g.k)) break;
    g.k *= g.terms.sizes[last];
    --g.terms.dims;
  }
  while (g.batches.dims > 0) {
    const int last = g.batches.dims - 1;
    const bool rows_follow = g.batches.a[last] == along(g.a, true, g.m) && g.d_batch == g.d_stride * g.m;
    if (g.batches.b[last] != 0 || !rows_follow) break;
    g.m *= g.batches.sizes[last];
    g.d_batch *= g.batches.sizes[last];
    --g.batches.dims;
  }
}

}  // namespace heddle::cuda_kernels
