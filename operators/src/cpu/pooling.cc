// Pooling, a plane at a time. The common case of 2 x 2 windows side by side has loops of its own that vectorise.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include <heddle/parallel.h>

#include "../pooling_kernels.h"
#include "floating.h"
#include "register.h"

namespace heddle {
namespace {

using namespace cpu_kernels;

// The part of an output's window that lies inside the image.
struct Window {
  std::int64_t row, row_end, column, column_end;  // in the image
  std::int64_t top, left;                         // where the window itself begins; negative in the padding
  std::int64_t area, padded_area;                 // places inside the image; and inside the padded image

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

// A later place wins only if it is greater, or the first NaN: !(later <= best) is both, given best is no NaN.
template <class T> void take_greater(T value, std::uint8_t place, T& best, std::uint8_t& at) {
  const bool wins = !(value <= best) & (best == best);
  best = wins ? value : best;
  at = wins ? place : at;
}

template <class T>
void max_two_by_two(const PoolProblem& p, const T* __restrict x, T* __restrict y,
                    std::uint8_t* __restrict where) {
  for (std::int64_t i = 0; i < p.out[0]; ++i) {
    const T *top = x + 2 * i * p.in[1], *bottom = top + p.in[1];
    T* out = y + i * p.out[1];
    std::uint8_t* place = where + i * p.out[1];
    for (std::int64_t j = 0; j < p.out[1]; ++j) {
      T best = top[2 * j];
      std::uint8_t at = 0;
      take_greater(top[2 * j + 1], 1, best, at);
      take_greater(bottom[2 * j], 2, best, at);
      take_greater(bottom[2 * j + 1], 3, best, at);
      out[j] = best;
      place[j] = at;
    }
  }
}

template <class T>
void max_two_by_two_backward(const PoolProblem& p, const T* __restrict grad,
                             const std::uint8_t* __restrict where, T* __restrict x_grad) {
  for (std::int64_t i = 0; i < p.out[0]; ++i) {
    T *top = x_grad + 2 * i * p.in[1], *bottom = top + p.in[1];
    const T* g = grad + i * p.out[1];
    const std::uint8_t* place = where + i * p.out[1];
    for (std::int64_t j = 0; j < p.out[1]; ++j) {
      top[2 * j] = place[j] == 0 ? g[j] : T(0);
      top[2 * j + 1] = place[j] == 1 ? g[j] : T(0);
      bottom[2 * j] = place[j] == 2 ? g[j] : T(0);
      bottom[2 * j + 1] = place[j] == 3 ? g[j] : T(0);
    }
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

// Calls fn.operator()<T, Where>() for the dtypes of the values and of the places.
template <class F> void visit_pool(DType values, DType places, F&& fn) {
  visit_floating(values, [&]<class T>() {
    if (places == DType::u8) {
      fn.template operator()<T, std::uint8_t>();
    } else {
      fn.template operator()<T, std::int32_t>();
    }
  });
}

void max_pool(const PoolProblem& p, const NDArray& x, const NDArray& y, const NDArray& where) {
  const std::int64_t in = p.in[0] * p.in[1], out = p.out[0] * p.out[1];
  visit_pool(x.dtype(), where.defined() ? where.dtype() : DType::i32, [&]<class T, class Where>() {
    const T* from = x.data<T>();
    T* to = y.data<T>();
    Where* place = where.defined() ? where.data<Where>() : nullptr;
    for_each_plane(p, [&](std::int64_t plane) {
      if constexpr (std::is_same_v<Where, std::uint8_t>) {
        if (is_two_by_two(p)) {
          max_two_by_two(p, from + plane * in, to + plane * out, place + plane * out);
          return;
        }
      }
      max_plane(p, from + plane * in, to + plane * out, place ? place + plane * out : nullptr);
    });
  });
}

void max_pool_backward(const PoolProblem& p, const NDArray& grad, const NDArray& where,
                       const NDArray& x_grad) {
  const std::int64_t in = p.in[0] * p.in[1], out = p.out[0] * p.out[1];
  visit_pool(grad.dtype(), where.dtype(), [&]<class T, class Where>() {
    const T* from = grad.data<T>();
    const Where* place = where.data<Where>();
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

// Calls body(input index, output index, share) for each place of each window that lies inside the image.
template <class F> void for_each_share(const PoolProblem& p, F&& body) {
  for (std::int64_t i = 0; i < p.out[0]; ++i) {
    for (std::int64_t j = 0; j < p.out[1]; ++j) {
      const Window window(p, i, j);
      const double share = 1.0 / static_cast<double>(p.count_include_pad ? window.padded_area : window.area);
      for (std::int64_t r = window.row; r < window.row_end; ++r) {
        for (std::int64_t c = window.column; c < window.column_end; ++c) {
          body(r * p.in[1] + c, i * p.out[1] + j, share);
        }
      }
    }
  }
}

void avg_pool(const PoolProblem& p, const NDArray& x, const NDArray& y) {
  const std::int64_t in = p.in[0] * p.in[1], out = p.out[0] * p.out[1];
  visit_floating(x.dtype(), [&]<class T>() {
    for_each_plane(p, [&, all_x = x.data<T>(), all_y = y.data<T>()](std::int64_t plane) {
      const T* from = all_x + plane * in;
      T* to = all_y + plane * out;
      std::fill_n(to, out, T(0));
      for_each_share(
          p, [&](std::int64_t i, std::int64_t o, double share) { to[o] += from[i] * static_cast<T>(share); });
    });
  });
}

void avg_pool_backward(const PoolProblem& p, const NDArray& grad, const NDArray& x_grad) {
  const std::int64_t in = p.in[0] * p.in[1], out = p.out[0] * p.out[1];
  visit_floating(grad.dtype(), [&]<class T>() {
    for_each_plane(p, [&, all_g = grad.data<T>(), all_x = x_grad.data<T>()](std::int64_t plane) {
      const T* from = all_g + plane * out;
      T* to = all_x + plane * in;
      std::fill_n(to, in, T(0));
      for_each_share(
          p, [&](std::int64_t i, std::int64_t o, double share) { to[i] += from[o] * static_cast<T>(share); });
    });
  });
}

}  // namespace

void cpu_kernels::register_pooling(KernelTable& table) {
  table.add<MaxPoolKernel>("max_pool2d", DeviceKind::cpu, max_pool);
  table.add<MaxPoolBackwardKernel>("max_pool2d_backward", DeviceKind::cpu, max_pool_backward);
  table.add<AvgPoolKernel>("avg_pool2d", DeviceKind::cpu, avg_pool);
  table.add<AvgPoolBackwardKernel>("avg_pool2d_backward", DeviceKind::cpu, avg_pool_backward);
}

}  // namespace heddle
