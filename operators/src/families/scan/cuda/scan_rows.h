// The kernel of scans of lines whose elements are adjacent, and that of totals.
#pragma once

#include "families/scan/cuda/scan.h"

namespace heddle::cuda_kernels {

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

// A warp, or a block, takes the totals of a line's parts. Each becomes what those before it are joined to.
template <class S> struct ScanTotals : ScanRows<S> {
  using P = typename S::Partial;

  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    const long long all = this->count(), block = thread.block_index().x;
    const long long line = this->by_blocks ? block : block * (kTeamThreads / on_gpu::kWarp) + thread.warp();
    if (line >= all) return;  // the whole warp
    const int team = this->by_blocks ? kTeamThreads : on_gpu::kWarp;
    const long long own = this->by_blocks ? thread.rank() : thread.lane();
    P carry = this->scan.start();
    for (long long tile = 0; tile < this->parts.count; tile += 4 * team) {
      P values[4];
      HEDDLE_UNROLL
      for (int j = 0; j < 4; ++j) {
        const long long part = tile + 4 * own + j;
        const P value = part < this->parts.count ? this->totals[part * all + line] : this->scan.start();
        values[j] = j == 0 ? value : this->scan(values[j - 1], value);
      }
      P before = this->scan_team(thread, values[3], carry);
      HEDDLE_UNROLL
      for (int j = 0; j < 4; ++j) {
        const long long part = tile + 4 * own + j;
        if (part < this->parts.count)
          this->totals[part * all + line] = j == 0 ? before : this->scan(before, values[j - 1]);
      }
    }
  }
};

}  // namespace heddle::cuda_kernels
