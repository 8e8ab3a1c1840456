// Pooling, one plane at a time. The common case of 2 x 2 windows without overlap has separate loops that
// vectorise.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include <heddle/parallel.h>

#include "core/kernel_table.h"
#include "cpu/floating.h"
#include "cpu/pairwise.h"
#include "cpu/scratch.h"
#include "families/conv/pooling_kernels.h"

namespace heddle::cpu_kernels {
namespace {

// The part of an output's window that lies inside the image.
struct Window {
  std::int64_t row, row_end, column, column_end;  // rows and columns in the image
  std::int64_t top, left;                         // start of the whole window; negative in the padding
  std::int64_t area, padded_area;  // number of elements inside the image, and inside the padded image

  Window(const PoolProblem& p, std::int64_t i, std::int64_t j)
      : top(i * p.stride[0] - p.padding[0]), left(j * p.stride[1] - p.padding[1]) {
    row = std::max<std::int64_t>(top, 0);
    column = std::max<std::int64_t>(left, 0);
    row_end = std::min(top + p.kernel[0], p.in[0]);
    column_end = std::min(left + p.kernel[1], p.in[1]);
    area = (row_end - row) * (column_end - column);
    padded_area = (std::min(top + p.kernel[0], p.in[0] + p.padding[0]) - top) *
                  (std::min(left + p.kernel[1], p.in[1] + p.padding[1]) - left);
  }
};

template <class T, class Where> void max_plane(const PoolProblem& p, const T* x, T* y, Where* where) {
  for (std::int64_t i = 0; i < p.out[0]; ++i) {
    for (std::int64_t j = 0; j < p.out[1]; ++j) {
      const Window window(p, i, j);
      T best = x[window.row * p.in[1] + window.column];
      std::int64_t at = (window.row - window.top) * p.kernel[1] + window.column - window.left;
      for (std::int64_t r = window.row; r < window.row_end; ++r) {
        for (std::int64_t c = window.column; c < window.column_end; ++c) {
          const T value = x[r * p.in[1] + c];
          if (!(value > best || (std::isnan(value) && !std::isnan(best)))) continue;
          best = value;
          at = (r - window.top) * p.kernel[1] + c - window.left;
        }
      }
      y[i * p.out[1] + j] = best;
      if (where) where[i * p.out[1] + j] = static_cast<Where>(at);
    }
  }
}

bool is_two_by_two(const PoolProblem& p) {
  return p.kernel[0] == 2 && p.kernel[1] == 2 && p.stride[0] == 2 && p.stride[1] == 2 && p.padding[0] == 0 &&
         p.padding[1] == 0;
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
  for (std::int64_t i = 0; i < p.out[0]; ++i) {
    const T *top = x + 2 * i * p.in[1], *bottom = top + p.in[1];
    const std::int64_t row = i * p.out[1];
    for_each_block<kWidest<T>>(p.out[1], [&]<int Lanes>(std::int64_t j) {
      max_block<Lanes>(top + 2 * j, bottom + 2 * j, y + row + j, where ? where + row + j : nullptr);
    });
  }
}

template <class T>
void max_two_by_two_backward(const PoolProblem& p, const T* grad, const std::uint8_t* where, T* x_grad) {
  for (std::int64_t i = 0; i < p.out[0]; ++i) {
    T *top = x_grad + 2 * i * p.in[1], *bottom = top + p.in[1];
    const std::int64_t row = i * p.out[1];
    for_each_block<kWidest<T>>(p.out[1], [&]<int Lanes>(std::int64_t j) {
      max_block_backward<Lanes>(grad + row + j, where + row + j, top + 2 * j, bottom + 2 * j);
    });
    if (p.in[1] % 2) top[p.in[1] - 1] = bottom[p.in[1] - 1] = T(0);
  }
  if (p.in[0] % 2) std::fill_n(x_grad + (p.in[0] - 1) * p.in[1], p.in[1], T(0));
}

template <class T, class Where>
void max_plane_backward(const PoolProblem& p, const T* grad, const Where* where, T* x_grad) {
  std::fill_n(x_grad, p.in[0] * p.in[1], T(0));
  for (std::int64_t i = 0; i < p.out[0]; ++i) {
    for (std::int64_t j = 0; j < p.out[1]; ++j) {
      const std::int64_t at = where[i * p.out[1] + j];
      const std::int64_t row = i * p.stride[0] - p.padding[0] + at / p.kernel[1];
      const std::int64_t column = j * p.stride[1] - p.padding[1] + at % p.kernel[1];
      x_grad[row * p.in[1] + column] += grad[i * p.out[1] + j];
    }
  }
}

// Runs body(plane) over all planes in chunks of about 64k elements.
template <class F> void for_each_plane(const PoolProblem& p, F&& body) {
  const std::int64_t grain = std::max<std::int64_t>(1, 65536 / (p.in[0] * p.in[1]));
  parallel_for(p.planes, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t plane = begin; plane < end; ++plane) body(plane);
  });
}

// Calls fn.operator()<T, Where>() with the types of the values and of the maxima's positions.
template <class F> void visit_pool(DType values, DType places, F&& fn) {
  visit_floating(values, [&]<class T>() {
    if (places == DType::u8) {
      fn.template operator()<T, std::uint8_t>();
    } else {
      fn.template operator()<T, std::int32_t>();
    }
  });
}

void max_pool(const KernelContext&, const PoolProblem& p, const NDArray& x, const NDArray& y,
              const NDArray& where) {
  const std::int64_t in = p.in[0] * p.in[1], out = p.out[0] * p.out[1];
  visit_pool(x.dtype(), where.defined() ? where.dtype() : DType::u8, [&]<class T, class Where>() {
    const T* from = x.data<const T>();
    T* to = y.data<T>();
    Where* place = where.defined() ? where.data<Where>() : nullptr;
    for_each_plane(p, [&](std::int64_t plane) {
      if constexpr (std::is_same_v<Where, std::uint8_t>) {
        if (is_two_by_two(p)) {
          max_two_by_two(p, from + plane * in, to + plane * out, place ? place + plane * out : nullptr);
          return;
        }
      }
      max_plane(p, from + plane * in, to + plane * out, place ? place + plane * out : nullptr);
    });
  });
}

void max_pool_backward(const KernelContext&, const PoolProblem& p, const NDArray& grad, const NDArray& where,
                       const NDArray& x_grad) {
  const std::int64_t in = p.in[0] * p.in[1], out = p.out[0] * p.out[1];
  visit_pool(grad.dtype(), where.dtype(), [&]<class T, class Where>() {
    const T* from = grad.data<const T>();
    const Where* place = where.data<const Where>();
    T* to = x_grad.data<T>();
    for_each_plane(p, [&](std::int64_t plane) {
      if constexpr (std::is_same_v<Where, std::uint8_t>) {
        if (is_two_by_two(p)) {
          max_two_by_two_backward(p, from + plane * out, place + plane * out, to + plane * in);
          return;
        }
      }
      max_plane_backward(p, from + plane * out, place + plane * out, to + plane * in);
    });
  });
}

// Calls body(window, output index, divisor of the mean) for each window.
template <class F> void for_each_window(const PoolProblem& p, F&& body) {
  for (std::int64_t i = 0; i < p.out[0]; ++i) {
    for (std::int64_t j = 0; j < p.out[1]; ++j) {
      const Window window(p, i, j);
      body(window, i * p.out[1] + j,
           static_cast<double>(p.count_include_pad ? window.padded_area : window.area));
    }
  }
}

// Sums in f64: an f32 sum of a large window would lose digits.
template <class T> double window_sum(const PoolProblem& p, const Window& window, const T* x) {
  const auto row_sum = [&](std::int64_t row) {
    return pairwise_sum(window.column, window.column_end,
                        [&, row](std::int64_t column) { return x[row * p.in[1] + column]; });
  };
  constexpr std::int64_t kSmall = 64;
  if (window.area > kSmall) return pairwise_sum(window.row, window.row_end, row_sum);
  double sum = 0;
  for (std::int64_t r = window.row; r < window.row_end; ++r) {
    for (std::int64_t c = window.column; c < window.column_end; ++c) {
      sum += static_cast<double>(x[r * p.in[1] + c]);
    }
  }
  return sum;
}

// Adds to each element of a window its share of the window's gradient. x_grad is 0 at first.
template <class T, class Sum> void add_shares(const PoolProblem& p, const T* grad, Sum* sums) {
  for_each_window(p, [&](const Window& window, std::int64_t at, double divisor) {
    const auto share = static_cast<Sum>(static_cast<double>(grad[at]) / divisor);
    for (std::int64_t r = window.row; r < window.row_end; ++r) {
      for (std::int64_t c = window.column; c < window.column_end; ++c) sums[r * p.in[1] + c] += share;
    }
  });
}

void avg_pool(const KernelContext&, const PoolProblem& p, const NDArray& x, const NDArray& y) {
  const std::int64_t in = p.in[0] * p.in[1], out = p.out[0] * p.out[1];
  visit_floating(x.dtype(), [&]<class T>() {
    for_each_plane(p, [&, all_x = x.data<const T>(), all_y = y.data<T>()](std::int64_t plane) {
      const T* from = all_x + plane * in;
      T* to = all_y + plane * out;
      for_each_window(p, [&](const Window& window, std::int64_t at, double divisor) {
        to[at] = static_cast<T>(window_sum(p, window, from) / divisor);
      });
    });
  });
}

void avg_pool_backward(const KernelContext&, const PoolProblem& p, const NDArray& grad,
                       const NDArray& x_grad) {
  const bool overlap = p.stride[0] < p.kernel[0] || p.stride[1] < p.kernel[1];
  const std::int64_t in = p.in[0] * p.in[1], out = p.out[0] * p.out[1];
  visit_floating(grad.dtype(), [&]<class T>() {
    for_each_plane(p, [&, all_g = grad.data<const T>(), all_x = x_grad.data<T>()](std::int64_t plane) {
      const T* from = all_g + plane * out;
      T* to = all_x + plane * in;
      std::fill_n(to, in, T(0));
      if (!overlap) return add_shares(p, from, to);
      // An element may be in many windows, so it is summed in f64 and rounded once.
      const Scratch room(sizeof(double) * static_cast<std::size_t>(in));
      double* sums = room.as<double>();
      std::fill_n(sums, in, 0.0);
      add_shares(p, from, sums);
      for (std::int64_t i = 0; i < in; ++i) to[i] = static_cast<T>(sums[i]);
    });
  });
}

}  // namespace

HEDDLE_CPU_KERNELS(pooling) {
  table.add<MaxPoolKernel>("max_pool2d", DeviceKind::cpu, max_pool);
  table.add<MaxPoolBackwardKernel>("max_pool2d_backward", DeviceKind::cpu, max_pool_backward);
  table.add<AvgPoolKernel>("avg_pool2d", DeviceKind::cpu, avg_pool);
  table.add<AvgPoolBackwardKernel>("avg_pool2d_backward", DeviceKind::cpu, avg_pool_backward);
}

}  // namespace heddle::cpu_kernels
