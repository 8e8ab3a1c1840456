// Pooling on GPUs. A thread computes one element: of the result from its window, of a gradient from the windows that the element is in,
// in their order. Sums have the CPU's order, so that all values are the CPU's bits.
#include <cmath>

#include "cuda/arithmetic.h"
#include "cuda/divide.h"
#include "cuda/team.h"
#include "families/conv/cuda/pooling.h"
#include "gpu/layout.h"

namespace heddle::cuda_kernels {
namespace {

using on_gpu::Type;

// As pool_span(): the elements begin, begin + dilation, ... before end.
struct Span {
  long long begin, end, padded;
};
HEDDLE_DEVICE long long least(long long a, long long b) { return a < b ? a : b; }

// (i * in + more) / out, where i <= out: the product may be too large.
HEDDLE_DEVICE long long boundary(long long i, long long in, long long out, long long more) {
  const Quotient each = divide(in, out);
  return i * each.whole + divide(i * each.rest + more, out).whole;
}

HEDDLE_DEVICE Span span_of(const Pooling& p, int axis, long long i) {
  const long long in = p.in[axis], out = p.out[axis];
  if (p.adaptive) {
    const long long begin = boundary(i, in, out, 0), end = boundary(i + 1, in, out, out - 1);
    return {begin, end, end - begin};
  }
  const long long start = i * p.stride[axis] - p.padding[axis], step = p.dilation[axis];
  const long long past = start + (p.kernel[axis] - 1) * step + 1;
  const long long first = start < 0 ? start + divide(step - 1 - start, step).whole * step : start;
  return {first, least(past, in), least(past, in + p.padding[axis]) - start};
}

// The windows from first to last along an axis may have element i; those without it are left out by holds().
struct Range {
  long long first, last;
};
HEDDLE_DEVICE Range windows_of(const Pooling& p, int axis, long long i) {
  const long long in = p.in[axis], out = p.out[axis];
  if (p.adaptive) {
    long long first = boundary(i, out, in, 0), last = first;
    while (first > 0 && span_of(p, axis, first - 1).end > i) --first;
    while (last + 1 < out && span_of(p, axis, last + 1).begin <= i) ++last;
    return {first, last};
  }
  const long long at = i + p.padding[axis], reach = (p.kernel[axis] - 1) * p.dilation[axis];
  const long long first = at <= reach ? 0 : divide(at - reach + p.stride[axis] - 1, p.stride[axis]).whole;
  return {first, least(divide(at, p.stride[axis]).whole, out - 1)};
}
HEDDLE_DEVICE bool holds(const Span& span, long long i, long long dilation) {
  return i >= span.begin && i < span.end && divide(i - span.begin, dilation).rest == 0;
}

HEDDLE_DEVICE long long volume_of(const long long (&sizes)[3]) { return sizes[0] * sizes[1] * sizes[2]; }

// Calls f(window's element of the result, its spans) for each window that has an element, in their order.
template <class F> HEDDLE_DEVICE void for_each_window(const Pooling& p, const Element& x, const F& f) {
  const long long plane = x.plane * volume_of(p.out);
  const Range slices = windows_of(p, 0, x.d), rows = windows_of(p, 1, x.h), columns = windows_of(p, 2, x.w);
  for (long long d = slices.first; d <= slices.last; ++d) {
    const Span in_d = span_of(p, 0, d);
    if (!holds(in_d, x.d, p.dilation[0])) continue;
    for (long long h = rows.first; h <= rows.last; ++h) {
      const Span in_h = span_of(p, 1, h);
      if (!holds(in_h, x.h, p.dilation[1])) continue;
      for (long long w = columns.first; w <= columns.last; ++w) {
        const Span in_w = span_of(p, 2, w);
        if (holds(in_w, x.w, p.dilation[2])) f(plane + (d * p.out[1] + h) * p.out[2] + w, in_d, in_h, in_w);
      }
    }
  }
}

HEDDLE_DEVICE long long place_at(const void* where, long long at, Type type) {
  if (type == Type::u8) return static_cast<const std::uint8_t*>(where)[at];
  return on_gpu::load<long long>(where, at, type);
}

template <class T> struct MaxPool {
  using Value = typename T::Sum;
  Pooling p;
  long long count;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    for (long long i = thread.global_index(); i < count; i += thread.global_size()) {
      const Element to = element_of(i, p.out);
      const Span slices = span_of(p, 0, to.d), rows = span_of(p, 1, to.h), columns = span_of(p, 2, to.w);
      const long long plane = to.plane * volume_of(p.in);
      const Type type{p.type};
      Value best = 0;
      long long at = -1, slice = 0;
      for (long long d = slices.begin; d < slices.end; d += p.dilation[0], ++slice) {
        long long line = slice * p.most[1];
        for (long long h = rows.begin; h < rows.end; h += p.dilation[1], ++line) {
          long long place = line * p.most[2];
          const long long row = plane + (d * p.in[1] + h) * p.in[2];
          for (long long w = columns.begin; w < columns.end; w += p.dilation[2], ++place) {
            const Value value = T::load(p.from, row + w, type);
            if (at >= 0 && !(value > best || (value != value && best == best))) continue;
            best = value;
            at = place;
          }
        }
      }
      put_sum<Value>(p.to, i, type, best);
      if (p.where) on_gpu::store(p.where, i, Type{p.where_type}, at);
    }
  }
};

template <class T> struct MaxPoolBackward {
  using Value = typename T::Sum;
  Pooling p;
  long long count;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    for (long long i = thread.global_index(); i < count; i += thread.global_size()) {
      const Element x = element_of(i, p.in);
      Value sum = 0;
      for_each_window(p, x, [&](long long at, const Span& d, const Span& h, const Span& w) {
        const long long slice = divide(x.d - d.begin, p.dilation[0]).whole * p.most[1],
                        line = (slice + divide(x.h - h.begin, p.dilation[1]).whole) * p.most[2];
        if (place_at(p.where, at, Type{p.where_type}) != line + divide(x.w - w.begin, p.dilation[2]).whole)
          return;
        const Value g = T::load(p.from, at, Type{p.type});
        sum = p.adds ? sum + g : g;
      });
      put_sum<Value>(p.to, i, Type{p.type}, sum);
    }
  }
};

HEDDLE_DEVICE double divisor(const Pooling& p, const Span& d, const Span& h, const Span& w) {
  if (p.count_include_pad)
    return static_cast<double>(d.padded) * static_cast<double>(h.padded) * static_cast<double>(w.padded);
  return static_cast<double>(d.end - d.begin) * static_cast<double>(h.end - h.begin) *
         static_cast<double>(w.end - w.begin);
}

// Sums as those of pairwise_sum() on the CPU, in f64: more than kLeaf terms are divided into halves, of others a leaf has kParts
// partial sums.
constexpr long long kLeaf = 128, kParts = 8;
HEDDLE_DEVICE long long first_half(long long count) { return count / (2 * kParts) * kParts; }

// The sum of leaf(begin, end) over all leaves. A bit of `path` says whether the leaf is in a second half.
template <class Leaf> HEDDLE_DEVICE double add_leaves(long long begin, long long count, const Leaf& leaf) {
  double waiting[32];  // sums of first halves
  unsigned path = 0;
  for (;;) {
    long long at = begin, rest = count;
    int level = 0;
    for (; rest > kLeaf; ++level) {
      const long long half = first_half(rest);
      const bool second = (path >> level & 1) != 0;
      at += second ? half : 0;
      rest = second ? rest - half : half;
    }
    double sum = leaf(at, at + rest);
    for (; level > 0 && (path >> (level - 1) & 1) != 0; --level) {
      sum = waiting[level - 1] + sum;
      path ^= 1u << (level - 1);
    }
    if (level == 0) return sum;
    waiting[level - 1] = sum;
    path |= 1u << (level - 1);
  }
}

// The sum of term(begin) ... term(end - 1).
template <class Term> HEDDLE_DEVICE double pairwise(long long begin, long long end, const Term& term) {
  return add_leaves(begin, end - begin, [&](long long first, long long last) {
    double parts[kParts] = {};
    long long i = first;
    for (; i + kParts <= last; i += kParts) {
      HEDDLE_UNROLL
      for (int k = 0; k < kParts; ++k) parts[k] += term(i + k);
    }
    HEDDLE_UNROLL
    for (int k = 0; k < kParts; ++k) {
      if (i + k < last) parts[k] += term(i + k);
    }
    return ((parts[0] + parts[1]) + (parts[2] + parts[3])) + ((parts[4] + parts[5]) + (parts[6] + parts[7]));
  });
}

template <class T> struct Terms {
  const void* from;
  long long begin;
  Type type;
  HEDDLE_DEVICE double operator()(long long i) const { return T::load(from, begin + i, type); }
};

constexpr long long kSmall = 64;  // windows of at most so many elements are summed one after the other

template <class T>
HEDDLE_DEVICE double small_sum(const Pooling& p, long long plane, const Span& d, const Span& h,
                               const Span& w) {
  double sum = 0;
  for (long long slice = d.begin; slice < d.end; ++slice) {
    for (long long row = h.begin; row < h.end; ++row) {
      const long long line = plane + (slice * p.in[1] + row) * p.in[2];
      for (long long at = w.begin; at < w.end; ++at) sum += T::load(p.from, line + at, Type{p.type});
    }
  }
  return sum;
}

// A thread computes a mean. With `only_small` all windows are small and no piece of memory: large ones need memory of the thread's
// own, which a GPU reserves for all threads.
template <class T, bool only_small> struct AvgPool {
  using Value = typename T::Sum;
  Pooling p;
  long long count;

  HEDDLE_DEVICE double window_sum(long long plane, const Span& d, const Span& h, const Span& w) const {
    if constexpr (!only_small) {
      const long long width = w.end - w.begin, height = h.end - h.begin, depth = d.end - d.begin;
      if (width == p.in[2] && (height == p.in[1] || depth == 1)) {  // one piece of memory
        const long long first = plane + (d.begin * p.in[1] + h.begin) * p.in[2];
        return pairwise(0, depth * height * width, Terms<T>{p.from, first, Type{p.type}});
      }
      if (depth * height * width > kSmall) return lines_sum(plane, d, h, w);
    }
    return small_sum<T>(p, plane, d, h, w);
  }
  struct Lines {
    const AvgPool& pool;
    long long plane, first_row, height;
    Span w;
    HEDDLE_DEVICE double operator()(long long line) const {
      const Pooling& p = pool.p;
      const long long row = (line / height * p.in[1] + first_row + line % height) * p.in[2];
      return pairwise(w.begin, w.end, Terms<T>{p.from, plane + row, Type{p.type}});
    }
  };
  HEDDLE_DEVICE double lines_sum(long long plane, const Span& d, const Span& h, const Span& w) const {
    const long long height = h.end - h.begin;
    return pairwise(d.begin * height, d.end * height, Lines{*this, plane, h.begin, height, w});
  }
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    for (long long i = thread.global_index(); i < count; i += thread.global_size()) {
      const Element to = element_of(i, p.out);
      const Span d = span_of(p, 0, to.d), h = span_of(p, 1, to.h), w = span_of(p, 2, to.w);
      const double mean = window_sum(to.plane * volume_of(p.in), d, h, w) / divisor(p, d, h, w);
      put_sum<Value>(p.to, i, Type{p.type}, static_cast<Value>(mean));
    }
  }
};
template <class T> using AvgPoolSmall = AvgPool<T, true>;
template <class T> using AvgPoolAny = AvgPool<T, false>;

// Means of whole planes. Groups of eight lanes take a subtree of a plane's sum each: a lane has one of the partial sums of a leaf.
// Subtrees are joined by the same tree.
template <class T> struct AvgPlanes {
  using Value = typename T::Sum;
  static constexpr int kLanes = static_cast<int>(kParts), kGroups = kTeamThreads / kLanes, kMostLevels = 5;
  static_assert(1 << kMostLevels == kGroups, "a block has at least one plane");
  Pooling p;
  int levels;  // how often the terms of a plane are divided among groups

  struct Leaf {
    on_gpu::Thread& thread;
    const void* from;
    long long plane;
    Type type;
    HEDDLE_DEVICE double operator()(long long begin, long long end) const {
      const int lane = thread.lane() % kLanes;
      const unsigned group = 0xffu << (thread.lane() - lane);
      double own = 0;
      for (long long i = begin + lane; i < end; i += kLanes) own += T::load(from, plane + i, type);
      for (int by = 1; by < kLanes; by *= 2) own += thread.shuffle_xor(own, by, group);
      return own;
    }
  };
  HEDDLE_DEVICE void finish(long long plane, double sum) const {
    const Span d = span_of(p, 0, 0), h = span_of(p, 1, 0), w = span_of(p, 2, 0);
    put_sum<Value>(p.to, plane, Type{p.type}, static_cast<Value>(sum / divisor(p, d, h, w)));
  }
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    HEDDLE_SHARED(thread, sums, double[kGroups]);
    HEDDLE_SHARED(thread, filled, bool[kGroups]);
    const int group = thread.rank() / kLanes, tree = group % (1 << levels);
    const long long plane =
        static_cast<long long>(thread.block_index().x) * (kGroups >> levels) + (group >> levels);
    long long begin = 0, count = volume_of(p.in);
    const long long first = plane * count;
    bool mine = plane < p.planes;  // a range that is divided no more is the first subtree's
    for (int level = levels - 1; level >= 0; --level) {
      const bool second = (tree >> level & 1) != 0;
      if (count <= kLeaf) {
        mine &= !second;
        continue;
      }
      const long long half = first_half(count);
      begin += second ? half : 0;
      count = second ? count - half : half;
    }
    const double sum = mine ? add_leaves(begin, count, Leaf{thread, p.from, first, Type{p.type}}) : 0;
    const bool leads = thread.rank() % kLanes == 0;
    if (leads) sums[group] = sum, filled[group] = mine;
    for (int by = 1; by < 1 << levels; by *= 2) {
      thread.barrier();
      if (leads && tree % (2 * by) == 0 && filled[group + by]) sums[group] += sums[group + by];
    }
    if (leads && tree == 0 && mine) finish(plane, sums[group]);
  }
};

template <class T> struct AvgPoolBackward {
  using Value = typename T::Sum;
  Pooling p;
  long long count;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    for (long long i = thread.global_index(); i < count; i += thread.global_size()) {
      double sum = 0;
      for_each_window(p, element_of(i, p.in), [&](long long at, const Span& d, const Span& h, const Span& w) {
        const double g = T::load(p.from, at, Type{p.type}), share = g / divisor(p, d, h, w);
        sum += p.wide ? share : static_cast<double>(static_cast<Value>(share));
      });
      if (p.wide)
        on_gpu::store(p.to, i, Type{p.type}, sum);  // rounded once
      else
        put_sum<Value>(p.to, i, Type{p.type}, static_cast<Value>(sum));
    }
  }
};

long long planes_of(const Pooling& p, const long long (&sizes)[3]) {
  return p.planes * sizes[0] * sizes[1] * sizes[2];
}

template <template <class> class Kernel>
const char* launch_over_elements(void* stream, const Pooling& p, long long count) {
  const auto native = static_cast<cudaStream_t>(stream);
  if (Type{p.type} == Type::f64) return on_gpu::launch_over(native, count, Kernel<Doubles>{p, count});
  return on_gpu::launch_over(native, count, Kernel<Floats>{p, count});
}

// Whether a result has one element, the mean of the whole plane.
bool is_whole(const Pooling& p) {
  for (int axis = 0; axis < 3; ++axis) {
    const bool reaches = p.adaptive || p.kernel[axis] - p.padding[axis] >= p.in[axis];
    if (p.out[axis] != 1 || !reaches) return false;
  }
  return true;
}

template <class T> const char* avg_planes(void* stream, const Pooling& p) {
  using Kernel = AvgPlanes<T>;
  Kernel kernel{p, 0};
  while (kernel.levels < Kernel::kMostLevels && p.in[0] * p.in[1] * p.in[2] > kLeaf << kernel.levels)
    ++kernel.levels;
  const long long planes = Kernel::kGroups >> kernel.levels;
  return launch_grid(stream, dim3(static_cast<unsigned>((p.planes + planes - 1) / planes)), kernel);
}

}  // namespace

const char* launch_max_pool(void* stream, const Pooling& p) {
  return launch_over_elements<MaxPool>(stream, p, planes_of(p, p.out));
}
const char* launch_max_pool_backward(void* stream, const Pooling& p) {
  return launch_over_elements<MaxPoolBackward>(stream, p, planes_of(p, p.in));
}
const char* launch_avg_pool(void* stream, const Pooling& p) {
  if (is_whole(p))
    return Type{p.type} == Type::f64 ? avg_planes<Doubles>(stream, p) : avg_planes<Floats>(stream, p);
  const bool small = p.most[0] * p.most[1] * p.most[2] <= kSmall && p.most[2] < p.in[2];
  if (small) return launch_over_elements<AvgPoolSmall>(stream, p, planes_of(p, p.out));
  return launch_over_elements<AvgPoolAny>(stream, p, planes_of(p, p.out));
}
const char* launch_avg_pool_backward(void* stream, const Pooling& p) {
  return launch_over_elements<AvgPoolBackward>(stream, p, planes_of(p, p.in));
}

}  // namespace heddle::cuda_kernels
