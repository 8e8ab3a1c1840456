// Sampling at places of a grid on GPUs. Sums are the CPU's, in its order: elements of a place by depth, height and width; places of an
// element of the image, whose sums are the gradient of the image, in the order of the places, which a stable sort keeps.
#include "cuda/indices.h"
#include "cuda/row_keys.h"
#include "families/grid_sample/cuda/kernels.h"
#include "families/grid_sample/taps_functors.h"

namespace heddle::cuda_kernels {
namespace {

using namespace functors;

constexpr int kChannels = 8;  // of one image, which a thread computes for its place
long long channel_blocks(const GridPlaces& p) { return (p.channels + kChannels - 1) / kChannels; }

HEDDLE_DEVICE long long least(long long a, long long b) { return a < b ? a : b; }

// The elements of an image that a place needs.
template <class T, int kTaps> struct Elements {
  static constexpr int kDepth = kTaps == 4 ? 1 : kTaps;
  Taps<T, kTaps> x, y;
  Taps<T, kDepth> z;
  bool deep;

  HEDDLE_DEVICE Elements(const GridPlaces& p, const int (&order)[3], const T* at) {
    const GridRule rule{static_cast<GridEdge>(p.edge), p.align_corners};
    x = axis_taps<kTaps>(rule, at[0], p.in[2], order[2]);
    y = axis_taps<kTaps>(rule, at[1], p.in[1], order[1]);
    z = {};
    z.weight[0] = T(1);
    deep = p.axes == 3;
    if constexpr (kTaps != 4) {
      if (deep) z = axis_taps<kTaps>(rule, at[2], p.in[0], order[0]);
    }
  }
  // Calls f(number, index in a plane or -1, weight) for each element.
  template <class F> HEDDLE_DEVICE void for_each(const GridPlaces& p, const F& f) const {
    HEDDLE_UNROLL
    for (int a = 0; a < kDepth; ++a) {
      if (a > 0 && !deep) break;
      HEDDLE_UNROLL
      for (int b = 0; b < kTaps; ++b) {
        HEDDLE_UNROLL
        for (int c = 0; c < kTaps; ++c) {
          const bool inside = z.index[a] >= 0 && y.index[b] >= 0 && x.index[c] >= 0;
          f((a * kTaps + b) * kTaps + c,
            inside ? (z.index[a] * p.in[1] + y.index[b]) * p.in[2] + x.index[c] : -1,
            z.weight[a] * y.weight[b] * x.weight[c]);
        }
      }
    }
  }
  HEDDLE_DEVICE T sample(const GridPlaces& p, const T* plane) const {
    T sum = 0;
    for_each(p, [&](int, long long index, T weight) {
      if (index >= 0) sum += weight * plane[index];
    });
    return sum;
  }
};

// A thread has one place and some channels.
template <class T, int kTaps> struct Sample {
  GridPlaces p;
  long long plane, blocks;
  const T *x, *grid;
  T* y;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    const long long count = p.batch * blocks * p.places;
    for (long long i = thread.global_index(); i < count; i += thread.global_size()) {
      const Split at = split(i, p.places), image = split(at.quotient, blocks);
      const long long b = image.quotient, first = image.rest * kChannels;
      const Elements<T, kTaps> elements(p, p.order, grid + (b * p.places + at.rest) * p.axes);
      const long long end = least(first + kChannels, p.channels);
      for (long long c = first; c < end; ++c) {
        const long long of = b * p.channels + c;
        y[of * p.places + at.rest] = elements.sample(p, x + of * plane);
      }
    }
  }
};

// A thread has one coordinate of one place.
template <class T, int kTaps> struct GridGradient {
  GridPlaces p;
  long long plane;
  const T *g, *x, *grid;
  T* grid_grad;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    const long long count = p.batch * p.places * p.axes;
    for (long long i = thread.global_index(); i < count; i += thread.global_size()) {
      const Split at = split(i, p.axes), image = split(at.quotient, p.places);
      int order[3];
      for (int axis = 0; axis < 3; ++axis) order[axis] = p.order[axis] + (axis == 2 - at.rest);
      const Elements<T, kTaps> elements(p, order, grid + at.quotient * p.axes);
      T sum = 0;
      for (long long c = 0; c < p.channels; ++c) {
        const long long of = image.quotient * p.channels + c;
        sum += g[of * p.places + image.rest] * elements.sample(p, x + of * plane);
      }
      grid_grad[i] = sum;
    }
  }
};

// An entry: a place and an element of the image that it needs. Its key is the element, or `plane` outside.
struct Entries {
  SortJob sort;
  void* weights;
  long long elements;  // of a place
};

template <class T, int kTaps> struct FillEntries {
  GridPlaces p;
  long long plane, elements;
  const T* grid;
  EntryLists keys;
  T* weights;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    const long long count = p.batch * p.places;
    for (long long i = thread.global_index(); i < count; i += thread.global_size()) {
      const Elements<T, kTaps> all(p, p.order, grid + i * p.axes);
      all.for_each(p, [&](int number, long long index, T weight) {
        store_key(keys, i * elements + number, index < 0 ? plane : index);
        weights[i * elements + number] = weight;
      });
    }
  }
};

// A thread has one element of an image and some channels.
template <class T> struct AddEntries {
  GridPlaces p;
  long long plane, blocks, elements;
  const void* keys;
  int key_bytes;
  const unsigned* order;
  const T *weights, *g;
  T* x_grad;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    const long long count = p.batch * blocks * plane, length = p.places * elements;
    for (long long i = thread.global_index(); i < count; i += thread.global_size()) {
      const Split at = split(i, plane), image = split(at.quotient, blocks);
      const long long b = image.quotient, first = b * p.channels + image.rest * kChannels,
                      left = (b + 1) * p.channels - first;
      T sums[kChannels] = {};
      for (long long j = first_of(b * length, length, at.rest); j < (b + 1) * length; ++j) {
        if (load_key(keys, key_bytes, j) != at.rest) break;
        const unsigned entry = order[j];
        const T weight = weights[b * length + entry];
        const long long place = split(entry, elements).quotient;
        HEDDLE_UNROLL
        for (int c = 0; c < kChannels; ++c)
          if (c < left) sums[c] += weight * g[(first + c) * p.places + place];
      }
      HEDDLE_UNROLL
      for (int c = 0; c < kChannels; ++c)
        if (c < left) x_grad[(first + c) * plane + at.rest] = sums[c];
    }
  }
  // The first of an image's keys, which are in ascending order, that is not below `key`.
  HEDDLE_DEVICE long long first_of(long long begin, long long length, long long key) const {
    long long low = begin, high = begin + length;
    while (low < high) {
      const long long middle = low + (high - low) / 2;
      if (load_key(keys, key_bytes, middle) < key)
        low = middle + 1;
      else
        high = middle;
    }
    return low;
  }
};

// Calls f with a kernel's types: a value of its elements, and the number of taps as a type.
template <class F> const char* by_taps(const GridPlaces& p, const F& f) {
  const auto with = [&](auto element) {
    if (p.taps == 1) return f(element, std::integral_constant<int, 1>{});
    if (p.taps == 2) return f(element, std::integral_constant<int, 2>{});
    return f(element, std::integral_constant<int, 4>{});
  };
  return p.wide ? with(double{}) : with(float{});
}

Entries entries_of(const GridPlaces& p, std::byte* space) {
  Entries made{{p.batch, p.places * p.elements(), 4, 1, space}, nullptr, p.elements()};
  while (made.sort.bits < 63 && p.plane() >> made.sort.bits) ++made.sort.bits;
  if (made.sort.bits > 32) made.sort.key_bytes = 8;
  made.weights = space + sort_bytes(made.sort.lines, made.sort.length, made.sort.key_bytes);
  return made;
}

template <class T>
const char* add_entries(cudaStream_t stream, const GridPlaces& p, const Entries& entries, const void* g,
                        void* x_grad) {
  SortedKeys sorted{};
  if (p.places > 0) {
    if (const char* problem = sort_keys(stream, entries.sort, sorted)) return problem;
  }
  const AddEntries<T> add{p,
                          p.plane(),
                          channel_blocks(p),
                          entries.elements,
                          sorted.keys,
                          entries.sort.key_bytes,
                          sorted.order,
                          static_cast<const T*>(entries.weights),
                          static_cast<const T*>(g),
                          static_cast<T*>(x_grad)};
  return on_gpu::launch_over(stream, p.batch * add.blocks * add.plane, add);
}

}  // namespace

const char* launch_sample(void* on, const GridPlaces& p, const void* x, const void* grid, void* y) {
  return by_taps(p, [&](auto element, auto taps) {
    using T = decltype(element);
    const Sample<T, taps.value> kernel{p,
                                       p.plane(),
                                       channel_blocks(p),
                                       static_cast<const T*>(x),
                                       static_cast<const T*>(grid),
                                       static_cast<T*>(y)};
    return on_gpu::launch_over(static_cast<cudaStream_t>(on), p.batch * kernel.blocks * p.places, kernel);
  });
}

const char* launch_grid_gradient(void* on, const GridPlaces& p, const void* g, const void* x,
                                 const void* grid, void* grid_grad) {
  return by_taps(p, [&](auto element, auto taps) {
    using T = decltype(element);
    const GridGradient<T, taps.value> kernel{p,
                                             p.plane(),
                                             static_cast<const T*>(g),
                                             static_cast<const T*>(x),
                                             static_cast<const T*>(grid),
                                             static_cast<T*>(grid_grad)};
    return on_gpu::launch_over(static_cast<cudaStream_t>(on), p.batch * p.places * p.axes, kernel);
  });
}

std::size_t spread_bytes(const GridPlaces& p) {
  const Entries entries = entries_of(p, nullptr);
  const auto count = static_cast<std::size_t>(entries.sort.lines * entries.sort.length);
  return sort_bytes(entries.sort.lines, entries.sort.length, entries.sort.key_bytes) +
         count * (p.wide ? sizeof(double) : sizeof(float));
}

const char* launch_spread(void* on, const GridPlaces& p, const void* g, const void* grid, void* x_grad,
                          std::byte* space) {
  const auto stream = static_cast<cudaStream_t>(on);
  const Entries entries = entries_of(p, space);
  if (p.places > 0) {
    const char* const problem = by_taps(p, [&](auto element, auto taps) {
      using T = decltype(element);
      const FillEntries<T, taps.value> fill{p,
                                            p.plane(),
                                            entries.elements,
                                            static_cast<const T*>(grid),
                                            {keys_to_sort(entries.sort), nullptr, entries.sort.key_bytes},
                                            static_cast<T*>(entries.weights)};
      return on_gpu::launch_over(stream, p.batch * p.places, fill);
    });
    if (problem) return problem;
  }
  return p.wide ? add_entries<double>(stream, p, entries, g, x_grad)
                : add_entries<float>(stream, p, entries, g, x_grad);
}

}  // namespace heddle::cuda_kernels
