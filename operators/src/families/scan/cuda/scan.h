// The kernels of a scan. Long lines are cut into parts: a first launch finds what the elements of each part are joined to, a second
// one joins those of the parts before each part, a third one scans each part, beginning with that. The cuts, and with them the order
// of sums, depend on shapes alone.
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
  P* totals;  // parts x lines, what each part, then what those before it are joined to; null if there is one part
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
    return only_totals || !totals ? scan.start() : totals[part * count() + line];
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

}  // namespace heddle::cuda_kernels
