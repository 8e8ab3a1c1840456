// Kernels that search sorted arrays and count bins.
#include <cstdint>

#include "cuda/report.h"
#include "cuda/sort_key.h"
#include "families/sorting/cuda/kernels.h"
#include "gpu/layout.h"

namespace heddle::cuda_kernels {
namespace {

using on_gpu::Type;

struct Search {
  on_gpu::Layout<2> layout;
  KeyRule rule;
  const void *sorted, *values;
  long long* y;
  long long length;
  bool right;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    for (long long i = thread.global_index(); i < layout.count; i += thread.global_size()) {
      long long at[2];
      layout.locate(i, at);
      const unsigned long long wanted = rule.key_at(values, at[0]);
      long long low = 0, high = length;
      while (low < high) {
        const long long middle = low + (high - low) / 2;
        const unsigned long long key = rule.key_at(sorted, middle);
        if (right ? key <= wanted : key < wanted)
          low = middle + 1;
        else
          high = middle;
      }
      y[at[1]] = low;
    }
  }
};

// As in searching.cc. Every thread has the bounds; the first one reports them.
template <class T> struct WriteEdges {
  const T *least, *most;
  T* edges;
  long long bins;
  FaultSlot* slot;
  HEDDLE_DEVICE void refuse(on_gpu::Thread& thread, double low, double high, int kind) const {
    if (thread.global_index() == 0)
      report(thread, slot, 0, on_gpu::bits_as<unsigned long long>(low), kind,
             on_gpu::bits_as<unsigned long long>(high));
  }
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    double low = static_cast<double>(*least), high = static_cast<double>(*most);
    if (!(low - low == 0) || !(high - high == 0)) return refuse(thread, low, high, kInfiniteBounds);
    if (low > high) return refuse(thread, low, high, kFallingBounds);
    if (low == high) low -= 0.5, high += 0.5;
    const double number = static_cast<double>(bins), width = (high - low) / number;
    const bool finite = width - width == 0;
    for (long long i = thread.global_index(); i <= bins; i += thread.global_size()) {
      const double at = static_cast<double>(i);
      const double edge = finite ? low + at * width : low * (1 - at / number) + high * (at / number);
      edges[i] = static_cast<T>(i == bins ? high : edge);
    }
  }
};

// Counts of few bins are first added up by each block.
constexpr int kFewBins = 2048;

// Adds 1 to the counts of `bin(i)`, unless that is negative.
template <class Bin> struct CountBins {
  Bin bin;
  long long count, bins;
  long long* counts;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    HEDDLE_SHARED(thread, own, int[kFewBins]);
    const bool few = bins <= kFewBins;
    for (int i = thread.rank(); few && i < bins; i += thread.size()) own[i] = 0;
    thread.barrier();
    for (long long i = thread.global_index(); i < count; i += thread.global_size()) {
      const long long at = bin(thread, i);
      if (at < 0) continue;
      if (few)
        on_gpu::atomic_add(&own[at], 1);
      else
        on_gpu::atomic_add(&counts[at], 1ll);
    }
    thread.barrier();
    for (int i = thread.rank(); few && i < bins; i += thread.size()) {
      const int sum = on_gpu::atomic_load(&own[i]);
      if (sum != 0) on_gpu::atomic_add(&counts[i], static_cast<long long>(sum));
    }
  }
};

struct SetZero {
  long long* values;
  long long count;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    for (long long i = thread.global_index(); i < count; i += thread.global_size()) values[i] = 0;
  }
};

// The bin of an element, as on the CPU: guessed by a division of halves, which do not overflow, and looked up where the
// guess is wrong.
template <class T> struct BinOf {
  const T *x, *edges;
  long long bins;
  HEDDLE_DEVICE long long operator()(on_gpu::Thread&, long long i) const {
    const T value = x[i];
    if (!(value >= edges[0] && value <= edges[bins])) return -1;
    const double first = static_cast<double>(edges[0]) / 2, end = static_cast<double>(edges[bins]) / 2;
    const double per_half = static_cast<double>(bins) / (end - first), last = static_cast<double>(bins - 1);
    const double guess = (static_cast<double>(value) / 2 - first) * per_half;
    const long long bin = guess > 0 ? static_cast<long long>(guess < last ? guess : last) : 0;
    if (value >= edges[bin] && (bin + 1 == bins || value < edges[bin + 1])) return bin;
    long long low = 0, high = bins;  // the first of the edges but the last that is above the value
    while (low < high) {
      const long long middle = low + (high - low) / 2;
      if (value < edges[middle])
        high = middle;
      else
        low = middle + 1;
    }
    return low > 0 ? low - 1 : 0;
  }
};

struct OwnBin {
  const long long* x;
  long long bound;
  FaultSlot* slot;
  HEDDLE_DEVICE long long operator()(on_gpu::Thread& thread, long long i) const {
    const long long value = x[i];
    if (value >= 0 && value < bound) return value;
    report(thread, slot, i, static_cast<unsigned long long>(value));
    return -1;
  }
};

struct CopyFractions {
  const double* x;
  double* y;
  long long count;
  FaultSlot* slot;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    for (long long i = thread.global_index(); i < count; i += thread.global_size()) {
      const double value = x[i];
      const bool fits = value >= 0 && value <= 1;
      if (!fits) report(thread, slot, i, on_gpu::bits_as<unsigned long long>(value));
      y[i] = fits ? value : 0;
    }
  }
};

template <class Bin>
const char* count_bins(cudaStream_t stream, const Bin& bin, long long count, long long bins,
                       long long* counts) {
  if (const char* problem = on_gpu::launch_over(stream, bins, SetZero{counts, bins})) return problem;
  if (count == 0) return nullptr;
  // A block counts several elements a thread, so that few blocks add up their counts.
  const long long threads = bins <= kFewBins ? (count + 7) / 8 : count;
  return on_gpu::launch_over(stream, threads, CountBins<Bin>{bin, count, bins, counts});
}

template <class T>
const char* edges_as(cudaStream_t stream, const void* least, const void* most, void* edges, long long bins,
                     FaultSlot* slot) {
  const WriteEdges<T> kernel{static_cast<const T*>(least), static_cast<const T*>(most),
                             static_cast<T*>(edges), bins, slot};
  return on_gpu::launch_over(stream, bins + 1, kernel);
}

}  // namespace

const char* launch_search(void* on, const void* sorted, long long length, const Strided& values,
                          const Strided& y, bool right) {
  const long long* const strides[2] = {values.strides, y.strides};
  const Search kernel{on_gpu::make_layout<2>(y.dims, y.sizes, strides),
                      key_rule(Type{values.type}),
                      sorted,
                      values.data,
                      static_cast<long long*>(y.data),
                      length,
                      right};
  return on_gpu::launch_over(static_cast<cudaStream_t>(on), kernel.layout.count, kernel);
}

const char* launch_edges(void* on, const void* least, const void* most, void* edges, long long bins,
                         unsigned char type, FaultSlot* slot) {
  const auto stream = static_cast<cudaStream_t>(on);
  return Type{type} == Type::f64 ? edges_as<double>(stream, least, most, edges, bins, slot)
                                 : edges_as<float>(stream, least, most, edges, bins, slot);
}

const char* launch_histogram(void* on, const void* x, long long count, const void* edges, long long bins,
                             unsigned char type, long long* counts) {
  const auto stream = static_cast<cudaStream_t>(on);
  if (Type{type} == Type::f64)
    return count_bins(stream,
                      BinOf<double>{static_cast<const double*>(x), static_cast<const double*>(edges), bins},
                      count, bins, counts);
  return count_bins(stream,
                    BinOf<float>{static_cast<const float*>(x), static_cast<const float*>(edges), bins}, count,
                    bins, counts);
}

const char* launch_bincount(void* on, const long long* x, long long count, long long* y, long long bound,
                            FaultSlot* slot) {
  if (bound == 0) return nullptr;
  return count_bins(static_cast<cudaStream_t>(on), OwnBin{x, bound, slot}, count, bound, y);
}

const char* launch_fractions(void* on, const double* x, double* y, long long count, FaultSlot* slot) {
  if (count == 0) return nullptr;
  return on_gpu::launch_over(static_cast<cudaStream_t>(on), count, CopyFractions{x, y, count, slot});
}

}  // namespace heddle::cuda_kernels
