// One step of a recurrent cell for a row of n units, forward and backward. Arrays are contiguous, and none overlaps another one; that
// is what lets the compiler make vector code.
#pragma once

#include <cmath>
#include <cstdint>

#include "cpu/vector_math.h"

namespace heddle::cpu_kernels {

// The numbers of a cell's gates in memory.
template <class T> struct Gates {
  T *first, *second, *third, *fourth;
  Gates(T* data, std::int64_t stride, int count)
      : first(data),
        second(count > 1 ? data + stride : nullptr),
        third(count > 2 ? data + 2 * stride : nullptr),
        fourth(count > 3 ? data + 3 * stride : nullptr) {}
};

// gate = f(gate + tile + bias), h = gate.
template <class T>
void tanh_forward(std::int64_t n, T* __restrict gate, const T* __restrict tile, const T* __restrict bias,
                  T* __restrict h) {
  for (std::int64_t u = 0; u < n; ++u) h[u] = gate[u] = fast_tanh(gate[u] + tile[u] + bias[u]);
}
template <class T>
void relu_forward(std::int64_t n, T* __restrict gate, const T* __restrict tile, const T* __restrict bias,
                  T* __restrict h) {
  for (std::int64_t u = 0; u < n; ++u) {
    const T sum = gate[u] + tile[u] + bias[u];
    h[u] = gate[u] = sum < T{0} ? T{0} : sum;  // NaN stays NaN
  }
}
template <class T>
void sigmoid_of_sum(std::int64_t n, T* __restrict gate, const T* __restrict tile, const T* __restrict bias) {
  for (std::int64_t u = 0; u < n; ++u) gate[u] = fast_sigmoid(gate[u] + tile[u] + bias[u]);
}
template <class T>
void tanh_of_sum(std::int64_t n, T* __restrict gate, const T* __restrict tile, const T* __restrict bias) {
  for (std::int64_t u = 0; u < n; ++u) gate[u] = fast_tanh(gate[u] + tile[u] + bias[u]);
}
template <class T>
void lstm_states(std::int64_t n, const T* __restrict i, const T* __restrict f, const T* __restrict g,
                 const T* __restrict o, const T* __restrict before, T* __restrict c, T* __restrict h) {
  for (std::int64_t u = 0; u < n; ++u) {
    const T next = f[u] * before[u] + i[u] * g[u];
    c[u] = next;
    h[u] = o[u] * fast_tanh(next);
  }
}
template <class T>
void lstm_forward(std::int64_t n, Gates<T> gates, Gates<const T> tile, Gates<const T> bias, const T* before,
                  T* c, T* h) {
  sigmoid_of_sum(n, gates.first, tile.first, bias.first);
  sigmoid_of_sum(n, gates.second, tile.second, bias.second);
  tanh_of_sum(n, gates.third, tile.third, bias.third);
  sigmoid_of_sum(n, gates.fourth, tile.fourth, bias.fourth);
  lstm_states(n, gates.first, gates.second, gates.third, gates.fourth, before, c, h);
}

// state_part: the new gate's part from the state. bias.fourth is that part's bias.
template <class T>
void gru_states(std::int64_t n, const T* __restrict r, const T* __restrict z, T* __restrict gate,
                const T* __restrict tile, const T* __restrict input_bias, const T* __restrict state_bias,
                const T* __restrict before, T* __restrict state_part, T* __restrict h) {
  for (std::int64_t u = 0; u < n; ++u) {
    const T part = tile[u] + state_bias[u], next = fast_tanh(gate[u] + input_bias[u] + r[u] * part);
    state_part[u] = part;
    gate[u] = next;
    h[u] = next + z[u] * (before[u] - next);
  }
}
template <class T>
void gru_forward(std::int64_t n, Gates<T> gates, Gates<const T> tile, Gates<const T> bias, const T* before,
                 T* state_part, T* h) {
  sigmoid_of_sum(n, gates.first, tile.first, bias.first);
  sigmoid_of_sum(n, gates.second, tile.second, bias.second);
  gru_states(n, gates.first, gates.second, gates.third, tile.third, bias.third, bias.fourth, before,
             state_part, h);
}

// h_grad: the gradient of h. d: the gradients of the gates before their functions.
template <class T>
void tanh_backward(std::int64_t n, const T* __restrict gate, const T* __restrict h_grad, T* __restrict d) {
  for (std::int64_t u = 0; u < n; ++u) d[u] = h_grad[u] * (T{1} - gate[u] * gate[u]);
}
template <class T>
void relu_backward(std::int64_t n, const T* __restrict gate, const T* __restrict h_grad, T* __restrict d) {
  for (std::int64_t u = 0; u < n; ++u) d[u] = gate[u] <= T{0} ? T{0} : h_grad[u];
}

// c_grad: the gradient of c, and afterwards that of the state before.
template <class T>
void lstm_gradients(std::int64_t n, const T* __restrict i, const T* __restrict f, const T* __restrict g,
                    const T* __restrict o, const T* __restrict before, const T* __restrict c,
                    const T* __restrict h_grad, T* __restrict c_grad, T* __restrict di, T* __restrict df,
                    T* __restrict dg, T* __restrict d_o) {
  for (std::int64_t u = 0; u < n; ++u) {
    const T t = fast_tanh(c[u]), dh = h_grad[u], dc = c_grad[u] + dh * o[u] * (T{1} - t * t);
    di[u] = dc * g[u] * i[u] * (T{1} - i[u]);
    df[u] = dc * before[u] * f[u] * (T{1} - f[u]);
    dg[u] = dc * i[u] * (T{1} - g[u] * g[u]);
    d_o[u] = dh * t * o[u] * (T{1} - o[u]);
    c_grad[u] = dc * f[u];
  }
}

// h_grad: the gradient of h, and afterwards the part of that of the state before that comes through no gate. dn: of the new gate's
// part from x, ds: of that from the state.
template <class T>
void gru_gradients(std::int64_t n, const T* __restrict r, const T* __restrict z, const T* __restrict g,
                   const T* __restrict state_part, const T* __restrict before, T* __restrict h_grad,
                   T* __restrict dn, T* __restrict dr, T* __restrict dz, T* __restrict ds) {
  for (std::int64_t u = 0; u < n; ++u) {
    const T dh = h_grad[u], through = dh * (T{1} - z[u]) * (T{1} - g[u] * g[u]);
    dn[u] = through;
    dr[u] = through * state_part[u] * r[u] * (T{1} - r[u]);
    dz[u] = dh * (before[u] - g[u]) * z[u] * (T{1} - z[u]);
    ds[u] = through * r[u];
    h_grad[u] = dh * z[u];
  }
}

}  // namespace heddle::cpu_kernels
