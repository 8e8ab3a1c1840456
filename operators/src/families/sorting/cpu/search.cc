// Kernels that search sorted arrays and count bins.
#include <algorithm>
#include <cstdint>
#include <vector>

#include <heddle/error.h>

#include "core/kernel_table.h"
#include "cpu/floating.h"
#include "cpu/loops/strided_loop.h"
#include "families/sorting/cpu/items.h"
#include "families/sorting/kernels.h"

namespace heddle::cpu_kernels {

namespace {

void search_kernel(const KernelContext&, const NDArray& sorted, const NDArray& values, const NDArray& y,
                   bool right) {
  visit_dtype(sorted.dtype(), [&]<class T> {
    const T* begin = sorted.data<const T>();
    const T* end = begin + sorted.size();
    const T* from = values.data<const T>();
    auto* to = y.data<std::int64_t>();
    const StridedLoop<2> loop(y.shape(), {values.strides(), y.strides()});
    const auto [step, to_step] = loop.inner_steps();
    loop.run([=, step = step, to_step = to_step](const auto& at, std::int64_t n) {
      for (std::int64_t i = 0; i < n; ++i) {
        const BitsOf<T> key = key_of(from[at[0] + i * step]);
        const T* place = std::partition_point(
            begin, end, [=](T value) { return right ? key_of(value) <= key : key_of(value) < key; });
        to[at[1] + i * to_step] = place - begin;
      }
    });
  });
}

double half(double x) { return x / 2; }

// The bin of x. The guess by division is right up to rounding, also that of edges to half precision. It uses
// halved values, since the difference of the largest numbers overflows; it is NaN where all edges are equal.
template <class T> std::int64_t bin_of(T x, const T* edges, std::int64_t bins, double per_half) {
  const double guess = (half(x) - half(edges[0])) * per_half, last = static_cast<double>(bins - 1);
  const std::int64_t bin = guess > 0 ? static_cast<std::int64_t>(std::min(guess, last)) : 0;
  if (x >= edges[bin] && (bin + 1 == bins || x < edges[bin + 1])) return bin;
  return std::max<std::int64_t>(std::upper_bound(edges, edges + bins, x) - edges - 1, 0);
}

void histogram_kernel(const KernelContext&, const NDArray& x, const NDArray& edges, const NDArray& counts) {
  constexpr std::int64_t kMostChunks = 64;
  const std::int64_t n = x.size(), bins = counts.size();
  const std::int64_t chunk = std::max({kElementGrain, bins, (n + kMostChunks - 1) / kMostChunks});
  const std::int64_t chunks = (n + chunk - 1) / chunk;
  auto* to = counts.data<std::int64_t>();
  std::vector<std::int64_t> parts(static_cast<std::size_t>(chunks * bins), 0);
  visit_floating(x.dtype(), [&]<class T> {
    const T* edge = edges.data<const T>();
    const T* from = x.data<const T>();
    const double per_half = static_cast<double>(bins) / (half(edge[bins]) - half(edge[0]));
    parallel_chunks(chunks, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t c = begin; c < end; ++c) {
        std::int64_t* part = parts.data() + c * bins;
        for (std::int64_t i = c * chunk; i < std::min(n, (c + 1) * chunk); ++i)
          if (from[i] >= edge[0] && from[i] <= edge[bins]) ++part[bin_of(from[i], edge, bins, per_half)];
      }
    });
  });
  std::fill_n(to, bins, 0);
  for (std::int64_t c = 0; c < chunks; ++c)
    for (std::int64_t i = 0; i < bins; ++i) to[i] += parts[static_cast<std::size_t>(c * bins + i)];
}

void bincount_kernel(const KernelContext&, const NDArray& x, const NDArray& y) {
  const auto* from = x.data<const std::int64_t>();
  auto* to = y.data<std::int64_t>();
  const std::int64_t bound = y.size();
  std::fill_n(to, bound, 0);
  for (std::int64_t i = 0; i < x.size(); ++i) {
    if (from[i] < 0 || from[i] >= bound)
      throw Error(with_call_site("bincount: x has changed since its range was looked at"));
    ++to[from[i]];
  }
}

}  // namespace

HEDDLE_CPU_KERNELS(search) {
  table.add<SearchKernel>("searchsorted", DeviceKind::cpu, search_kernel);
  table.add<BincountKernel>("bincount", DeviceKind::cpu, bincount_kernel);
  table.add<HistogramKernel>("histogram", DeviceKind::cpu, histogram_kernel);
}

}  // namespace heddle::cpu_kernels
