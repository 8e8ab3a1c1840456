// The kernels of a scan. Long lines are cut into parts: a first launch finds what the elements of each part are joined to, a second
// one scans each part, beginning with what those before it are joined to. The cuts, and with them the order of sums, depend on
// shapes alone.
#pragma once

#include "cuda/team.h"
#include "families/scan/cuda/kernels.h"
#include "families/scan/cuda/scans.h"
#include "gpu/layout.h"

namespace heddle::cuda_kernels {

template <class S> struct Scan {
  using P = typename S::Partial;
  S scan;
  ScanLines lines;
  Parts parts;
  P* totals;         // parts x lines, what each part is joined to; null if there is one part
  bool only_totals;  // the first launch

  HEDDLE_DEVICE long long count() const { return lines.outer * lines.inner; }
  HEDDLE_DEVICE long long end_of(long long part) const {
    const long long end = (part + 1) * parts.size;
    return end < lines.length ? end : lines.length;
  }
  HEDDLE_DEVICE P take(long long begin, long long i) const {
    return scan.take(scan.load(lines.x, begin + i * lines.inner, Type{lines.dtype}), i);
  }
  HEDDLE_DEVICE void put(long long begin, long long i, const P& value) const {
    scan.store(lines.y, begin + i * lines.inner, Type{lines.dtype}, value);
  }
  HEDDLE_DEVICE P before(long long line, long long part) const {
    P total = scan.start();
    if (only_totals) return total;
    for (long long k = 0; k < part; ++k) total = scan(total, totals[k * count() + line]);
    return total;
  }
};

// One thread takes a line: neighbouring threads take adjacent elements.
template <class S> struct ScanColumns : Scan<S> {
  using P = typename S::Partial;

  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    const long long line = thread.global_index(), part = thread.block_index().y, inner = this->lines.inner;
    if (line >= this->count()) return;
    const long long begin = line / inner * this->lines.length * inner + line % inner;
    P total = this->before(line, part);
    for (long long i = part * this->parts.size; i < this->end_of(part); ++i) {
      total = this->scan(total, this->take(begin, i));
      if (!this->only_totals) this->put(begin, i, total);
    }
    if (this->only_totals) this->totals[part * this->count() + line] = total;
  }
};

// A warp, or a block, takes a line whose elements are adjacent: tiles of four elements a thread.
template <class S> struct ScanRows : Scan<S> {
  using P = typename S::Partial;
  bool by_blocks;

  static HEDDLE_DEVICE P from_below(on_gpu::Thread& thread, const P& value, int by) {
    return by_words(value, [&](auto word) { return thread.shuffle_up(word, static_cast<unsigned>(by)); });
  }
  // What the lanes before this one have; the lane's own `total` becomes what it and those before it have.
  HEDDLE_DEVICE P scan_warp(on_gpu::Thread& thread, P& total) const {
    for (int by = 1; by < on_gpu::kWarp; by *= 2) {
      const P other = from_below(thread, total, by);
      if (thread.lane() >= by) total = this->scan(other, total);
    }
    const P below = from_below(thread, total, 1);
    return thread.lane() == 0 ? this->scan.start() : below;
  }
  // What the threads of the team before this one have; `carry` is joined to what the whole team has.
  HEDDLE_DEVICE P scan_team(on_gpu::Thread& thread, P total, P& carry) const {
    HEDDLE_SHARED(thread, of_warps, P[kTeamThreads / on_gpu::kWarp]);
    P below = scan_warp(thread, total);
    const int last = on_gpu::kWarp - 1;
    if (!by_blocks) {
      const P start = carry;
      carry = this->scan(carry, by_words(total, [&](auto word) { return thread.shuffle(word, last); }));
      return this->scan(start, below);
    }
    thread.barrier();  // until all have read the tile before
    if (thread.lane() == last) of_warps[thread.warp()] = total;
    thread.barrier();
    P start = carry;
    for (int warp = 0; warp < kTeamThreads / on_gpu::kWarp; ++warp) {
      if (warp == thread.warp()) start = carry;
      carry = this->scan(carry, of_warps[warp]);
    }
    return this->scan(start, below);
  }
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    const int warps = kTeamThreads / on_gpu::kWarp;
    const long long block = thread.block_index().x, part = thread.block_index().y;
    const long long line = by_blocks ? block : block * warps + thread.warp();
    const long long begin = line * this->lines.length;
    const int team = by_blocks ? kTeamThreads : on_gpu::kWarp;
    const long long own = by_blocks ? thread.rank() : thread.lane();
    const long long end = line < this->count() ? this->end_of(part) : 0;
    if (end == 0) return;  // the whole warp
    P carry = this->before(line, part);
    for (long long tile = part * this->parts.size; tile < end; tile += 4 * team) {
      P values[4];
      for (int j = 0; j < 4; ++j) {
        const long long i = tile + 4 * own + j;
        const P value = i < end ? this->take(begin, i) : this->scan.start();
        values[j] = j == 0 ? value : this->scan(values[j - 1], value);
      }
      const P below = scan_team(thread, values[3], carry);
      if (this->only_totals) continue;
      for (int j = 0; j < 4; ++j) {
        const long long i = tile + 4 * own + j;
        if (i < end) this->put(begin, i, this->scan(below, values[j]));
      }
    }
    if (this->only_totals && own == 0) this->totals[part * this->count() + line] = carry;
  }
};

// A warp takes a line whose elements are adjacent, and joins them one after the other.
template <class S> struct ScanInOrder : Scan<S> {
  using P = typename S::Partial;

  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    const long long line =
        static_cast<long long>(thread.block_index().x) * (kTeamThreads / on_gpu::kWarp) + thread.warp();
    if (line >= this->count()) return;  // the whole warp
    const long long begin = line * this->lines.length;
    P total = this->scan.start();
    for (long long tile = 0; tile < this->lines.length; tile += on_gpu::kWarp) {
      const long long i = tile + thread.lane();
      const bool exists = i < this->lines.length;
      const P value = exists ? this->take(begin, i) : this->scan.start();
      P own = total;
      for (int lane = 0; lane < on_gpu::kWarp; ++lane) {
        total = this->scan(total, thread.shuffle(value, lane));
        if (lane == thread.lane()) own = total;
      }
      if (exists) this->put(begin, i, own);
    }
  }
};

// How a line of `length` elements is cut, so that there are about `wanted` parts in all lines.
inline Parts scan_parts(long long lines, long long length, long long wanted, long long least,
                        long long unit) {
  long long count = length / least;
  if (count > wanted / lines) count = wanted / lines;
  if (count < 1) count = 1;
  const long long size = ((length + count - 1) / count + unit - 1) / unit * unit;
  return {size, (length + size - 1) / size};
}

template <class K> const char* launch_scan(void* stream, K kernel, long long blocks, Scratch& scratch) {
  using P = typename K::P;
  const dim3 grid(static_cast<unsigned>(blocks), static_cast<unsigned>(kernel.parts.count));
  if (kernel.parts.count > 1) {
    kernel.totals = scratch.take_array<P>(kernel.parts.count * kernel.lines.outer * kernel.lines.inner);
    kernel.only_totals = true;
    if (const char* problem = launch_grid(stream, grid, kernel)) return problem;
    kernel.only_totals = false;
  }
  return launch_grid(stream, grid, kernel);
}

template <class S> const char* scan(void* stream, const S& how, const ScanLines& lines, Scratch& scratch) {
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
    kernel.parts = scan_parts(count, lines.length, 256, 4096, 4 * kTeamThreads);
    return launch_scan(stream, kernel, count, scratch);
  }
}

}  // namespace heddle::cuda_kernels
