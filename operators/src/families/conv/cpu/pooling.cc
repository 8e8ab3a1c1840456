// Pooling, one plane at a time. The common case of 2 x 2 windows without overlap has separate loops that
// vectorise.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <type_traits>
#include <utility>
#include <vector>

#include <heddle/half.h>
#include <heddle/parallel.h>

#include "core/kernel_table.h"
#include "cpu/floating.h"
#include "cpu/pairwise.h"
#include "cpu/scratch.h"
#include "families/conv/pooling_kernels.h"

namespace heddle::cpu_kernels {
namespace {

constexpr std::int64_t kBlock = 64;  // windows of a row that are computed together

// The first element and the length of each pooling window, along each axis of the image.
class PoolWindows {
 public:
  explicit PoolWindows(const PoolProblem& p) {
    for (std::size_t axis = 0; axis < kSpatial; ++axis)
      for (std::int64_t i = 0; i < p.out[axis]; ++i) spans_[axis].push_back(pool_span(p, axis, i));
    if (p.adaptive) return;
    const std::int64_t first = p.padding[2], span = (p.kernel[2] - 1) * p.dilation[2] + 1;
    inner_ = std::min(p.out[2], first == 0 ? 0 : (first - 1) / p.stride[2] + 1);
    const std::int64_t last = p.in[2] + first - span;  // where a window may begin at most
    inner_end_ = last < 0 ? 0 : std::min(p.out[2], last / p.stride[2] + 1);
    constexpr std::int64_t kFewest = 8;
    if (inner_end_ - inner_ < kFewest) inner_end_ = inner_;
  }

  // Calls one(slices, rows, columns, output index) with the spans of each window, or, for those windows of a row that lie inside
  // the image along it, if they are many, row(slices, rows, first column, number of windows, first output index). The windows are in order.
  template <class One, class Row> void for_each(const One& one, const Row& row) const {
    const std::vector<PoolSpan>& columns = spans_[2];
    const auto width = static_cast<std::int64_t>(columns.size());
    const auto span = [&](std::int64_t j) -> const PoolSpan& { return columns[static_cast<std::size_t>(j)]; };
    std::int64_t at = 0;
    for (const PoolSpan& slices : spans_[0])
      for (const PoolSpan& rows : spans_[1]) {
        for (std::int64_t j = 0; j < inner_; ++j) one(slices, rows, span(j), at + j);
        if (inner_ < inner_end_) row(slices, rows, span(inner_).begin, inner_end_ - inner_, at + inner_);
        for (std::int64_t j = inner_end_; j < width; ++j) one(slices, rows, span(j), at + j);
        at += width;
      }
  }
  template <class One> void for_each(const One& one) const {
    std::int64_t at = 0;
    for (const PoolSpan& slices : spans_[0])
      for (const PoolSpan& rows : spans_[1])
        for (const PoolSpan& columns : spans_[2]) one(slices, rows, columns, at++);
  }
  bool overlap() const {
    return std::any_of(std::begin(spans_), std::end(spans_), [](const std::vector<PoolSpan>& spans) {
      return std::adjacent_find(spans.begin(), spans.end(), [](const PoolSpan& a, const PoolSpan& b) {
               return b.begin < a.end;
             }) != spans.end();
    });
  }

 private:
  std::vector<PoolSpan> spans_[kSpatial];
  std::int64_t inner_ = 0,
               inner_end_ = 0;  // the windows inside the image along the last axis; none if they are few
};

// Calls body(offset in the plane, number of the line in the window) for each line of a window along the last axis.
template <class F>
void for_each_line(const PoolProblem& p, const PoolSpan& slices, const PoolSpan& rows, const F& body) {
  const std::int64_t height = most_in_window(p)[1];
  std::int64_t slice_at = 0;
  for (std::int64_t s = slices.begin; s < slices.end; s += p.dilation[0], slice_at += height) {
    std::int64_t line = slice_at;
    for (std::int64_t r = rows.begin; r < rows.end; r += p.dilation[1])
      body((s * p.in[1] + r) * p.in[2], line++);
  }
}

// Calls body.operator()<Step>() with the distance of windows in a row; 0: any.
template <class F> void with_step(const PoolProblem& p, const F& body) {
  if (p.stride[2] == 1)
    body.template operator()<1>();
  else if (p.stride[2] == 2)
    body.template operator()<2>();
  else
    body.template operator()<0>();
}

// The largest element of a window, and its position. The first of equals; the first NaN.
template <class T>
void max_of_window(const PoolProblem& p, const PoolSpan& slices, const PoolSpan& rows,
                   const PoolSpan& columns, const T* x, T& best, std::int64_t& at) {
  const std::int64_t width = most_in_window(p)[2], step = p.dilation[2];
  best = x[(slices.begin * p.in[1] + rows.begin) * p.in[2] + columns.begin];
  at = 0;
  for_each_line(p, slices, rows, [&](std::int64_t offset, std::int64_t line) {
    std::int64_t place = line * width;
    for (std::int64_t c = columns.begin; c < columns.end; c += step, ++place) {
      const T value = x[offset + c];
      if (!(value > best || (std::isnan(value) && !std::isnan(best)))) continue;
      best = value;
      at = place;
    }
  });
}

// The type in which vectors count the places of a window's elements beside values of T.
template <class T> using Lane = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;

// The largest element of each of `n` windows of a row, at most kBlock, of which the first begins at x, and its position if `at` is
// given. Loops go over windows, not over elements of a window, so that vectors compute them.
template <int Step, class T>
void max_of_row(const PoolProblem& p, const PoolSpan& slices, const PoolSpan& rows, const T* x,
                std::int64_t n, T* best, Lane<T>* at) {
  const std::int64_t step = Step == 0 ? p.stride[2] : Step;
  const T* const first = x + (slices.begin * p.in[1] + rows.begin) * p.in[2];
  for (std::int64_t k = 0; k < n; ++k) best[k] = first[k * step];
  for_each_line(p, slices, rows, [&](std::int64_t offset, std::int64_t line) {
    for (std::int64_t c = 0; c < p.kernel[2]; ++c) {
      const T* const from = x + offset + c * p.dilation[2];
      const auto place = static_cast<Lane<T>>(line * p.kernel[2] + c);
      const auto wins = [](T value, T than) { return !(value <= than) & (than == than); };
      if (!at) {
        for (std::int64_t k = 0; k < n; ++k)
          best[k] = wins(from[k * step], best[k]) ? from[k * step] : best[k];
        continue;
      }
      for (std::int64_t k = 0; k < n; ++k) {
        const T value = from[k * step];
        at[k] = wins(value, best[k]) ? place : at[k];
        best[k] = wins(value, best[k]) ? value : best[k];
      }
    }
  });
}

template <class T, class Place>
void max_plane(const PoolProblem& p, const PoolWindows& windows, const T* x, T* y, Place* where) {
  const auto one = [&](const PoolSpan& slices, const PoolSpan& rows, const PoolSpan& columns,
                       std::int64_t to) {
    std::int64_t at;
    max_of_window(p, slices, rows, columns, x, y[to], at);
    if (where) where[to] = static_cast<Place>(at);
  };
  if constexpr (sizeof(Place) > sizeof(T)) return windows.for_each(one);
  const auto of_row = p.stride[2] == 1   ? max_of_row<1, T>
                      : p.stride[2] == 2 ? max_of_row<2, T>
                                         : max_of_row<0, T>;
  windows.for_each(one, [&](const PoolSpan& slices, const PoolSpan& rows, std::int64_t column,
                            std::int64_t count, std::int64_t to) {
    for (std::int64_t done = 0; done < count; done += kBlock) {
      const std::int64_t n = std::min(kBlock, count - done);
      T best[kBlock];
      Lane<T> at[kBlock]{};
      of_row(p, slices, rows, x + column + done * p.stride[2], n, best, where ? at : nullptr);
      std::copy(best, best + n, y + to + done);
      if (where)
        std::transform(at, at + n, where + to + done,
                       [](Lane<T> place) { return static_cast<Place>(place); });
    }
  });
}

bool is_two_by_two(const PoolProblem& p) {
  return !p.adaptive && p.in[0] == 1 && p.kernel == Spatial{1, 2, 2} && p.stride[1] == 2 &&
         p.stride[2] == 2 && p.padding == Spatial{} && p.dilation == Spatial{1, 1, 1} &&
         2 * p.out[1] <= p.in[1] && 2 * p.out[2] <= p.in[2];
}

// A vector of Lanes values of T, in a register if the machine has one as wide.
template <class T, int Lanes> struct Vector {
  typedef T Values __attribute__((vector_size(Lanes * sizeof(T))));
  typedef std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t> Integer;
  typedef Integer Places __attribute__((vector_size(Lanes * sizeof(T))));
  typedef std::uint8_t Bytes __attribute__((vector_size(Lanes)));

  template <class V, class E> static V load(const E* from) {
    V value;
    std::memcpy(&value, from, sizeof value);
    return value;
  }
  // Loads every second of the 2 * Lanes values at `from`, beginning with the first (0) or the second (1).
  template <int First> static Values every_second(const T* from) {
    const auto low = load<Values>(from), high = load<Values>(from + Lanes);
    return [&]<int... I>(std::integer_sequence<int, I...>) {
      return __builtin_shufflevector(low, high, (2 * I + First)...);
    }
    (std::make_integer_sequence<int, Lanes>());
  }
  // Stores even[0], odd[0], even[1], odd[1], ...
  static void store_alternating(Values even, Values odd, T* to) {
    [&]<int... I>(std::integer_sequence<int, I...>) {
      const Values low = __builtin_shufflevector(even, odd, (I / 2 + I % 2 * Lanes)...);
      const Values high = __builtin_shufflevector(even, odd, ((I + Lanes) / 2 + (I + Lanes) % 2 * Lanes)...);
      std::memcpy(to, &low, sizeof low);
      std::memcpy(to + Lanes, &high, sizeof high);
    }
    (std::make_integer_sequence<int, Lanes>());
  }
};

// Computes the maxima of Lanes adjacent windows.
template <int Lanes, class T> void max_block(const T* top, const T* bottom, T* y, std::uint8_t* where) {
  using V = Vector<T, Lanes>;
  typename V::Values best = V::template every_second<0>(top);
  typename V::Places at{};
  const auto take_greater = [&](typename V::Values value, int place) {
    // True for a greater value, and for the first NaN.
    const typename V::Places wins = ~(value <= best) & (best == best);
    best = wins ? value : best;
    at = wins ? typename V::Places{} + place : at;
  };
  take_greater(V::template every_second<1>(top), 1);
  take_greater(V::template every_second<0>(bottom), 2);
  take_greater(V::template every_second<1>(bottom), 3);
  std::memcpy(y, &best, sizeof best);
  if (!where) return;
  const auto bytes = __builtin_convertvector(at, typename V::Bytes);
  std::memcpy(where, &bytes, sizeof bytes);
}

template <int Lanes, class T>
void max_block_backward(const T* grad, const std::uint8_t* where, T* top, T* bottom) {
  using V = Vector<T, Lanes>;
  const auto g = V::template load<typename V::Values>(grad);
  const auto at = __builtin_convertvector(V::template load<typename V::Bytes>(where), typename V::Places);
  const auto share = [&](int place) { return at == place ? g : typename V::Values{}; };
  V::store_alternating(share(0), share(1), top);
  V::store_alternating(share(2), share(3), bottom);
}

// Covers [0, count) with blocks of the largest Lanes that fits, and calls body.operator()<Lanes>(begin) for each. The
// last block overlaps the one before it, and computes the same values again.
template <int Lanes, class F> void for_each_block(std::int64_t count, F&& body) {
  if constexpr (Lanes > 1) {
    if (count < Lanes) {
      for_each_block<(Lanes > 4 ? Lanes / 2 : 1)>(count, body);
      return;
    }
  }
  for (std::int64_t begin = 0; begin + Lanes < count; begin += Lanes) body.template operator()<Lanes>(begin);
  body.template operator()<Lanes>(count - Lanes);
}

template <class T> constexpr int kWidest = 64 / sizeof(T);

template <class T> void max_two_by_two(const PoolProblem& p, const T* x, T* y, std::uint8_t* where) {
  for (std::int64_t i = 0; i < p.out[1]; ++i) {
    const T *top = x + 2 * i * p.in[2], *bottom = top + p.in[2];
    const std::int64_t row = i * p.out[2];
    for_each_block<kWidest<T>>(p.out[2], [&]<int Lanes>(std::int64_t j) {
      max_block<Lanes>(top + 2 * j, bottom + 2 * j, y + row + j, where ? where + row + j : nullptr);
    });
  }
}

template <class T>
void max_two_by_two_backward(const PoolProblem& p, const T* grad, const std::uint8_t* where, T* x_grad) {
  for (std::int64_t i = 0; i < p.out[1]; ++i) {
    T *top = x_grad + 2 * i * p.in[2], *bottom = top + p.in[2];
    const std::int64_t row = i * p.out[2];
    for_each_block<kWidest<T>>(p.out[2], [&]<int Lanes>(std::int64_t j) {
      max_block_backward<Lanes>(grad + row + j, where + row + j, top + 2 * j, bottom + 2 * j);
    });
    if (p.in[2] % 2) top[p.in[2] - 1] = bottom[p.in[2] - 1] = T(0);
  }
  if (p.in[1] % 2) std::fill_n(x_grad + (p.in[1] - 1) * p.in[2], p.in[2], T(0));
}

// The distance in memory from a window's first element to each of its others. For windows of at most 256 elements distances are
// kept in a table, because computing one takes divisions.
class PlaceOffsets {
 public:
  explicit PlaceOffsets(const PoolProblem& p) : p_(p), most_(most_in_window(p)) {
    for (std::int64_t place = 0; place < std::min<std::int64_t>(256, volume(most_)); ++place)
      table_[place] = computed(place);
  }
  std::int64_t operator()(std::uint8_t place) const { return table_[place]; }
  template <class Place> std::int64_t operator()(Place place) const { return computed(place); }

 private:
  std::int64_t computed(std::int64_t place) const {
    const std::int64_t line = place / most_[2];
    return (line / most_[1] * p_.dilation[0] * p_.in[1] + line % most_[1] * p_.dilation[1]) * p_.in[2] +
           place % most_[2] * p_.dilation[2];
  }
  const PoolProblem& p_;
  Spatial most_;
  std::int64_t table_[256];
};

template <class T, class Place>
void max_plane_backward(const PoolProblem& p, const PoolWindows& windows, const PlaceOffsets& offsets,
                        const T* grad, const Place* where, T* x_grad) {
  std::fill_n(x_grad, volume(p.in), T(0));
  windows.for_each(
      [&](const PoolSpan& slices, const PoolSpan& rows, const PoolSpan& columns, std::int64_t from) {
        const std::int64_t first = (slices.begin * p.in[1] + rows.begin) * p.in[2] + columns.begin;
        x_grad[first + offsets(where[from])] += grad[from];
      });
}

// One plane of an array that loops read. Halves are widened.
template <class S> class PlaneRead {
 public:
  PlaneRead(const S* from, std::int64_t count)
      : room_(is_half_type<S> ? sizeof(float) * static_cast<std::size_t>(count) : 0) {
    if constexpr (is_half_type<S>) {
      widen(from, room_.as<float>(), static_cast<std::size_t>(count));
      data_ = room_.as<const float>();
    } else {
      data_ = from;
    }
  }
  const ComputeType<S>* data() const { return data_; }

 private:
  Scratch room_;
  const ComputeType<S>* data_;
};

// One plane of an array that loops write. Halves are computed in f32, and rounded by finish().
template <class S> class PlaneWritten {
 public:
  PlaneWritten(S* to, std::int64_t count)
      : to_(to),
        count_(static_cast<std::size_t>(count)),
        room_(is_half_type<S> ? sizeof(float) * count_ : 0) {}
  ComputeType<S>* data() const {
    if constexpr (is_half_type<S>) {
      return room_.as<float>();
    } else {
      return to_;
    }
  }
  void finish() const {
    if constexpr (is_half_type<S>) narrow(room_.as<const float>(), to_, count_);
  }

 private:
  S* to_;
  std::size_t count_;
  Scratch room_;
};

// Runs body(plane) over all planes in chunks of about 64k elements.
template <class F> void for_each_plane(const PoolProblem& p, F&& body) {
  const std::int64_t grain = std::max<std::int64_t>(1, 65536 / volume(p.in));
  parallel_for(p.planes, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t plane = begin; plane < end; ++plane) body(plane);
  });
}

// Calls fn.operator()<T, Place>() with the types of the values and of the maxima's positions.
template <class F> void visit_pool(DType values, DType places, F&& fn) {
  visit_floating_or_half(values, [&]<class T>() {
    if (places == DType::u8)
      fn.template operator()<T, std::uint8_t>();
    else if (places == DType::i32)
      fn.template operator()<T, std::int32_t>();
    else
      fn.template operator()<T, std::int64_t>();
  });
}

void max_pool(const KernelContext&, const PoolProblem& p, const NDArray& x, const NDArray& y,
              const NDArray& where) {
  if (p.planes == 0) return;  // sizes may be beyond the memory
  const PoolWindows windows(p);
  const std::int64_t in = volume(p.in), out = volume(p.out);
  visit_pool(x.dtype(), where.defined() ? where.dtype() : DType::u8, [&]<class T, class Place>() {
    const T* from = x.data<const T>();
    T* to = y.data<T>();
    Place* place = where.defined() ? where.data<Place>() : nullptr;
    for_each_plane(p, [&](std::int64_t plane) {
      const PlaneRead<T> image(from + plane * in, in);
      const PlaneWritten<T> pooled(to + plane * out, out);
      Place* const places = place ? place + plane * out : nullptr;
      bool done = false;
      if constexpr (std::is_same_v<Place, std::uint8_t>) {
        done = is_two_by_two(p);
        if (done) max_two_by_two(p, image.data(), pooled.data(), places);
      }
      if (!done) max_plane(p, windows, image.data(), pooled.data(), places);
      pooled.finish();
    });
  });
}

void max_pool_backward(const KernelContext&, const PoolProblem& p, const NDArray& grad, const NDArray& where,
                       const NDArray& x_grad) {
  if (p.planes == 0) return;  // sizes may be beyond the memory
  const PoolWindows windows(p);
  const PlaceOffsets offsets(p);
  const std::int64_t in = volume(p.in), out = volume(p.out);
  visit_pool(grad.dtype(), where.dtype(), [&]<class T, class Place>() {
    const T* from = grad.data<const T>();
    const Place* place = where.data<const Place>();
    T* to = x_grad.data<T>();
    for_each_plane(p, [&](std::int64_t plane) {
      const PlaneRead<T> g(from + plane * out, out);
      const PlaneWritten<T> image(to + plane * in, in);
      const Place* const places = place + plane * out;
      bool done = false;
      if constexpr (std::is_same_v<Place, std::uint8_t>) {
        done = is_two_by_two(p);
        if (done) max_two_by_two_backward(p, g.data(), places, image.data());
      }
      if (!done) max_plane_backward(p, windows, offsets, g.data(), places, image.data());
      image.finish();
    });
  });
}

// The number of elements by which the sum of a window is divided.
double pool_divisor(const PoolProblem& p, const PoolSpan& slices, const PoolSpan& rows,
                    const PoolSpan& columns) {
  const auto count = [&](const PoolSpan& span) {
    return static_cast<double>(p.count_include_pad ? span.padded : span.end - span.begin);
  };
  return count(slices) * count(rows) * count(columns);
}

// Windows of at most so many elements are summed one element after the other.
constexpr std::int64_t kSmallWindow = 64;

bool has_small_windows(const PoolProblem& p) {
  double elements = 1;  // with the padding there may be more than 64 bits hold
  for (const std::int64_t size : p.kernel) elements *= static_cast<double>(size);
  return elements <= kSmallWindow;
}

// Sums in f64: an f32 sum of a large window would lose digits.
template <class T>
double window_sum(const PoolProblem& p, const PoolSpan& slices, const PoolSpan& rows, const PoolSpan& columns,
                  const T* x) {
  const std::int64_t width = columns.end - columns.begin, height = rows.end - rows.begin,
                     depth = slices.end - slices.begin;
  if (width == p.in[2] && (height == p.in[1] || depth == 1)) {  // it is one piece of memory
    const T* const first = x + (slices.begin * p.in[1] + rows.begin) * p.in[2];
    return pairwise_sum(0, depth * height * width, [first](std::int64_t i) { return first[i]; });
  }
  if (depth * height * width > kSmallWindow) {
    return pairwise_sum(slices.begin * height, slices.end * height, [&](std::int64_t line) {
      const T* const row = x + (line / height * p.in[1] + rows.begin + line % height) * p.in[2];
      return pairwise_sum(columns.begin, columns.end, [row](std::int64_t column) { return row[column]; });
    });
  }
  double sum = 0;
  for (std::int64_t s = slices.begin; s < slices.end; ++s)
    for (std::int64_t r = rows.begin; r < rows.end; ++r) {
      const T* const row = x + (s * p.in[1] + r) * p.in[2];
      for (std::int64_t c = columns.begin; c < columns.end; ++c) sum += static_cast<double>(row[c]);
    }
  return sum;
}

// The means of `count` windows of a row, of which the first begins at x; the sums have the order of window_sum().
template <int Step, class T>
void mean_of_row(const PoolProblem& p, const PoolSpan& slices, const PoolSpan& rows, double divided_by,
                 const T* x, std::int64_t count, T* y) {
  const std::int64_t step = Step == 0 ? p.stride[2] : Step;
  for (std::int64_t done = 0; done < count; done += kBlock) {
    const std::int64_t n = std::min(kBlock, count - done);
    double sums[kBlock];
    std::fill_n(sums, n, 0.0);
    for_each_line(p, slices, rows, [&](std::int64_t offset, std::int64_t) {
      for (std::int64_t c = 0; c < p.kernel[2]; ++c) {
        const T* const from = x + offset + done * step + c;
        for (std::int64_t k = 0; k < n; ++k) sums[k] += static_cast<double>(from[k * step]);
      }
    });
    for (std::int64_t k = 0; k < n; ++k) y[done + k] = static_cast<T>(sums[k] / divided_by);
  }
}

template <class T> void mean_plane(const PoolProblem& p, const PoolWindows& windows, const T* x, T* y) {
  const auto one = [&](const PoolSpan& slices, const PoolSpan& rows, const PoolSpan& columns,
                       std::int64_t to) {
    y[to] = static_cast<T>(window_sum(p, slices, rows, columns, x) / pool_divisor(p, slices, rows, columns));
  };
  if (p.adaptive || !has_small_windows(p)) return windows.for_each(one);
  with_step(p, [&]<int Step>() {
    windows.for_each(one, [&](const PoolSpan& slices, const PoolSpan& rows, std::int64_t column,
                              std::int64_t count, std::int64_t to) {
      const PoolSpan columns{column, column + p.kernel[2], p.kernel[2]};
      mean_of_row<Step>(p, slices, rows, pool_divisor(p, slices, rows, columns), x + column, count, y + to);
    });
  });
}

// Adds to the elements of `count` windows of a row, of which the first begins at `sums`, their shares of the windows' gradients. Taps
// go backwards: an element gets the shares of its windows in their order.
template <int Step, class T, class Sum>
void add_shares_of_row(const PoolProblem& p, const PoolSpan& slices, const PoolSpan& rows, double divided_by,
                       const T* grad, std::int64_t count, Sum* sums) {
  const std::int64_t step = Step == 0 ? p.stride[2] : Step;
  for (std::int64_t done = 0; done < count; done += kBlock) {
    const std::int64_t n = std::min(kBlock, count - done);
    Sum shares[kBlock];
    for (std::int64_t k = 0; k < n; ++k)
      shares[k] = static_cast<Sum>(static_cast<double>(grad[done + k]) / divided_by);
    for_each_line(p, slices, rows, [&](std::int64_t offset, std::int64_t) {
      for (std::int64_t c = p.kernel[2]; c-- > 0;) {
        Sum* const to = sums + offset + done * step + c;
        for (std::int64_t k = 0; k < n; ++k) to[k * step] += shares[k];
      }
    });
  }
}

// Adds to each element of a window its share of the window's gradient.
template <class T, class Sum>
void add_shares(const PoolProblem& p, const PoolWindows& windows, const T* grad, Sum* sums) {
  const auto one = [&](const PoolSpan& slices, const PoolSpan& rows, const PoolSpan& columns,
                       std::int64_t from) {
    const auto share =
        static_cast<Sum>(static_cast<double>(grad[from]) / pool_divisor(p, slices, rows, columns));
    for_each_line(p, slices, rows, [&](std::int64_t offset, std::int64_t) {
      for (std::int64_t c = columns.begin; c < columns.end; ++c) sums[offset + c] += share;
    });
  };
  if (p.adaptive) return windows.for_each(one);
  with_step(p, [&]<int Step>() {
    windows.for_each(one, [&](const PoolSpan& slices, const PoolSpan& rows, std::int64_t column,
                              std::int64_t count, std::int64_t from) {
      const PoolSpan columns{column, column + p.kernel[2], p.kernel[2]};
      add_shares_of_row<Step>(p, slices, rows, pool_divisor(p, slices, rows, columns), grad + from, count,
                              sums + column);
    });
  });
}

void avg_pool(const KernelContext&, const PoolProblem& p, const NDArray& x, const NDArray& y) {
  if (p.planes == 0) return;  // sizes may be beyond the memory
  const PoolWindows windows(p);
  const std::int64_t in = volume(p.in), out = volume(p.out);
  visit_floating_or_half(x.dtype(), [&]<class T>() {
    for_each_plane(p, [&, from = x.data<const T>(), to = y.data<T>()](std::int64_t plane) {
      const PlaneRead<T> image(from + plane * in, in);
      const PlaneWritten<T> pooled(to + plane * out, out);
      mean_plane(p, windows, image.data(), pooled.data());
      pooled.finish();
    });
  });
}

void avg_pool_backward(const KernelContext&, const PoolProblem& p, const NDArray& grad,
                       const NDArray& x_grad) {
  if (p.planes == 0) return;  // sizes may be beyond the memory
  const PoolWindows windows(p);
  const bool overlap = windows.overlap();
  const std::int64_t in = volume(p.in), out = volume(p.out);
  visit_floating_or_half(grad.dtype(), [&]<class T>() {
    for_each_plane(p, [&, all_g = grad.data<const T>(), all_x = x_grad.data<T>()](std::int64_t plane) {
      const PlaneRead<T> g(all_g + plane * out, out);
      T* to = all_x + plane * in;
      if (!overlap) {
        const PlaneWritten<T> image(to, in);
        std::fill_n(image.data(), in, ComputeType<T>(0));
        add_shares(p, windows, g.data(), image.data());
        return image.finish();
      }
      // An element may be in many windows, so it is summed in f64 and rounded once.
      const Scratch room(sizeof(double) * static_cast<std::size_t>(in));
      double* sums = room.as<double>();
      std::fill_n(sums, in, 0.0);
      add_shares(p, windows, g.data(), sums);
      for (std::int64_t i = 0; i < in; ++i) to[i] = static_cast<T>(sums[i]);
    });
  });
}

}  // namespace

HEDDLE_CPU_KERNELS(pooling) {
  table.add<MaxPoolKernel>("max_pool", DeviceKind::cpu, max_pool);
  table.add<MaxPoolBackwardKernel>("max_pool_backward", DeviceKind::cpu, max_pool_backward);
  table.add<AvgPoolKernel>("avg_pool", DeviceKind::cpu, avg_pool);
  table.add<AvgPoolBackwardKernel>("avg_pool_backward", DeviceKind::cpu, avg_pool_backward);
}

}  // namespace heddle::cpu_kernels
