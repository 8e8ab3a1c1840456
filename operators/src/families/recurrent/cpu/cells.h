// One step of a recurrent cell for a row of n units. Arrays are contiguous, and none overlaps another one; that is what lets the
// compiler make vector code.
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

// gate = sigmoid(gate + tile + bias + weight * cell)
template <class T>
void sigmoid_with_peephole(std::int64_t n, T* __restrict gate, const T* __restrict tile,
                           const T* __restrict bias, const T* __restrict weight, const T* __restrict cell) {
  for (std::int64_t u = 0; u < n; ++u)
    gate[u] = fast_sigmoid(gate[u] + tile[u] + bias[u] + weight[u] * cell[u]);
}
// peepholes: of i, f and o.
template <class T>
void lstm_forward_with_peepholes(std::int64_t n, Gates<T> gates, Gates<const T> tile, Gates<const T> bias,
                                 Gates<const T> peepholes, const T* before, T* c, T* h) {
  sigmoid_with_peephole(n, gates.first, tile.first, bias.first, peepholes.first, before);
  sigmoid_with_peephole(n, gates.second, tile.second, bias.second, peepholes.second, before);
  tanh_of_sum(n, gates.third, tile.third, bias.third);
  const T* __restrict const i = gates.first;
  const T* __restrict const f = gates.second;
  const T* __restrict const g = gates.third;
  for (std::int64_t u = 0; u < n; ++u) c[u] = f[u] * before[u] + i[u] * g[u];
  sigmoid_with_peephole(n, gates.fourth, tile.fourth, bias.fourth, peepholes.third, c);
  const T* __restrict const o = gates.fourth;
  for (std::int64_t u = 0; u < n; ++u) h[u] = o[u] * fast_tanh(c[u]);
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

// The two passes of a gru whose reset gate multiplies the state. product: that of `reset`, the state behind the gate.
template <class T>
void gru_reset(std::int64_t n, Gates<T> gates, Gates<const T> tile, Gates<const T> bias,
               const T* __restrict before, T* __restrict reset) {
  sigmoid_of_sum(n, gates.first, tile.first, bias.first);
  sigmoid_of_sum(n, gates.second, tile.second, bias.second);
  const T* __restrict const r = gates.first;
  for (std::int64_t u = 0; u < n; ++u) reset[u] = r[u] * before[u];
}
template <class T>
void gru_after_reset(std::int64_t n, const T* __restrict z, T* __restrict gate, const T* __restrict product,
                     const T* __restrict bias, const T* __restrict before, T* __restrict h) {
  for (std::int64_t u = 0; u < n; ++u) {
    const T next = fast_tanh(gate[u] + product[u] + bias[u]);
    gate[u] = next;
    h[u] = next + z[u] * (before[u] - next);
  }
}

}  // namespace heddle::cpu_kernels
