// Chooses the kernel of a scan and how its lines are cut.
#pragma once

#include "families/scan/cuda/scan_rows.h"

namespace heddle::cuda_kernels {

// How a line of `length` elements is cut, so that there are about `wanted` parts in all lines.
inline Parts scan_parts(long long lines, long long length, long long wanted, long long least,
                        long long unit) {
  long long count = length / least;
  if (count > wanted / lines) count = wanted / lines;
  if (count < 1) count = 1;
  const long long size = ((length + count - 1) / count + unit - 1) / unit * unit;
  return {size, (length + size - 1) / size};
}

template <class S> const char* scan_totals(void* stream, const Scan<S>& of) {
  constexpr long long kWarps = kTeamThreads / on_gpu::kWarp;
  const ScanTotals<S> kernel{{of, of.parts.count > 4 * on_gpu::kWarp}};
  const long long blocks = kernel.by_blocks ? of.lines.outer * of.lines.inner
                                            : (of.lines.outer * of.lines.inner + kWarps - 1) / kWarps;
  return launch_grid(stream, dim3(static_cast<unsigned>(blocks)), kernel);
}

template <class K> const char* launch_scan(void* stream, K kernel, long long blocks, ScratchBlocks& scratch) {
  using P = typename K::P;
  const dim3 grid(static_cast<unsigned>(blocks), static_cast<unsigned>(kernel.parts.count));
  if constexpr (!decltype(kernel.scan)::kInOrder) {
    if (kernel.parts.count > 1) {
      kernel.totals = scratch.take_array<P>(kernel.parts.count * kernel.lines.outer * kernel.lines.inner);
      kernel.only_totals = true;
      if (const char* problem = launch_grid(stream, grid, kernel)) return problem;
      if (const char* problem = scan_totals(stream, kernel)) return problem;
      kernel.only_totals = false;
    }
  }
  return launch_grid(stream, grid, kernel);
}

template <class S>
const char* scan(void* stream, const S& how, const ScanLines& lines, ScratchBlocks& scratch) {
  constexpr long long kWarps = kTeamThreads / on_gpu::kWarp;
  const long long count = lines.outer * lines.inner;
  const Parts whole{lines.length, 1};
  constexpr long long kShort = 16;  // lines that one thread takes although their elements are adjacent
  if (lines.inner > 1 || lines.length <= kShort) {
    ScanColumns<S> kernel{{how, lines, whole, nullptr, false}};
    if (!S::kInOrder) kernel.parts = scan_parts(count, lines.length, 1 << 14, 64, 1);
    return launch_scan(stream, kernel, (count + kTeamThreads - 1) / kTeamThreads, scratch);
  }
  if constexpr (S::kInOrder) {
    const ScanInOrder<S> kernel{{how, lines, whole, nullptr, false}};
    return launch_scan(stream, kernel, (count + kWarps - 1) / kWarps, scratch);
  } else {
    ScanRows<S> kernel{{how, lines, whole, nullptr, false}, lines.length > 1024};
    if (!kernel.by_blocks) return launch_scan(stream, kernel, (count + kWarps - 1) / kWarps, scratch);
    kernel.parts = scan_parts(count, lines.length, 1024, 4096, 4 * kTeamThreads);
    return launch_scan(stream, kernel, count, scratch);
  }
}

}  // namespace heddle::cuda_kernels
