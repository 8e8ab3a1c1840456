#include <algorithm>
#include <array>

#include "core/kernel_table.h"
#include "cpu/loops/strided_loop.h"
#include "families/reduce/cpu/plan.h"
#include "families/reduce/kernels.h"

namespace heddle::cpu_kernels {

namespace {

constexpr std::int64_t kTile = 256;  // columns searched together

// Whether x replaces `best`: among equal values the first stays, and so does the first NaN. No branches, so
// that the compiler vectorizes.
struct Larger {
  template <class T> bool operator()(T x, T best) const { return (x > best) | ((x != x) & (best == best)); }
};
struct Smaller {
  template <class T> bool operator()(T x, T best) const { return (x < best) | ((x != x) & (best == best)); }
};

template <class F, class T> std::int64_t best_index(const T* x, std::int64_t step, std::int64_t n) {
  T best = x[0];
  std::int64_t at = 0;
  for (std::int64_t i = 1; i < n; ++i) {
    const T value = x[i * step];
    if (F{}(value, best)) best = value, at = i;
  }
  return at;
}

// Searches `width` adjacent columns together, row after row.
template <class F, class T>
void best_indices(const T* x, std::int64_t step, std::int64_t n, std::int64_t* at, std::int64_t width) {
  std::array<T, kTile> best;
  std::copy(x, x + width, best.begin());
  std::fill(at, at + width, 0);
  for (std::int64_t i = 1; i < n; ++i) {
    const T* row = x + i * step;
#pragma GCC ivdep
    for (std::int64_t j = 0; j < width; ++j) {
      const bool better = F{}(row[j], best[j]);
      best[j] = better ? row[j] : best[j];
      at[j] = better ? i : at[j];
    }
  }
}

template <class F, class T>
void by_rows(const ReducePlan& plan, const T* x, std::int64_t step, std::int64_t n, std::int64_t* y) {
  const std::int64_t grain = std::max<std::int64_t>(1, kElementGrain / n);
  parallel_chunks(plan.kept.count(), grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t result = begin; result < end; ++result) {
      const auto [from, to] = plan.kept.offsets(result);
      y[to] = best_index<F>(x + from, step, n);
    }
  });
}

// Searches adjacent results together, where the innermost kept axis is contiguous in x and in y.
template <class F, class T>
void by_columns(const ReducePlan& plan, const T* x, std::int64_t step, std::int64_t n, std::int64_t* y) {
  const std::int64_t inner = plan.kept.inner_size(), across = (inner + kTile - 1) / kTile;
  const std::int64_t grain = std::max<std::int64_t>(1, kElementGrain / (n * std::min(inner, kTile)));
  parallel_chunks(plan.kept.count() / inner * across, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t tile = begin; tile < end; ++tile) {
      const std::int64_t column = tile % across * kTile;
      const auto [from, to] = plan.kept.offsets(tile / across * inner + column);
      best_indices<F>(x + from, step, n, y + to, std::min(kTile, inner - column));
    }
  });
}

template <class F> void arg_kernel(const KernelContext&, const NDArray& x, const NDArray& y, int axis) {
  if (y.size() == 0) return;
  const ReducePlan plan(x, y, {axis});
  const std::int64_t n = x.shape()[axis], step = x.strides()[axis];
  const int inner = plan.kept.dims - 1;
  const bool neighbours = inner >= 0 && plan.kept.steps[inner] == 1 && plan.kept.result_steps[inner] == 1;
  visit_number(x.dtype(), [&]<class T> {
    auto* to = y.data<std::int64_t>();
    if (neighbours)
      by_columns<F>(plan, x.data<const T>(), step, n, to);
    else
      by_rows<F>(plan, x.data<const T>(), step, n, to);
  });
}

}  // namespace

HEDDLE_CPU_KERNELS(argreduce) {
  table.add<ArgReduceKernel>("argmax", DeviceKind::cpu, arg_kernel<Larger>);
  table.add<ArgReduceKernel>("argmin", DeviceKind::cpu, arg_kernel<Smaller>);
}

}  // namespace heddle::cpu_kernels
