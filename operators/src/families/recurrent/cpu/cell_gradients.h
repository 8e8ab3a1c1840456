// One step backward of a recurrent cell for a row of n units; arrays as in cells.h.
#pragma once

#include <cstdint>

#include "cpu/vector_math.h"
#include "families/recurrent/cpu/cells.h"

namespace heddle::cpu_kernels {

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

template <class T>
void lstm_gradients_with_peepholes(std::int64_t n, Gates<const T> gates, Gates<const T> peepholes,
                                   const T* __restrict before, const T* __restrict c,
                                   const T* __restrict h_grad, T* __restrict c_grad, Gates<T> d) {
  const T *__restrict const i = gates.first, *__restrict const f = gates.second,
                            *__restrict const g = gates.third, *__restrict const o = gates.fourth;
  T* __restrict const di = d.first, * __restrict const df = d.second, * __restrict const dg = d.third, * __restrict const d_o = d.fourth;
  for (std::int64_t u = 0; u < n; ++u) {
    const T t = fast_tanh(c[u]), dh = h_grad[u], through = dh * t * o[u] * (T{1} - o[u]),
            dc = c_grad[u] + dh * o[u] * (T{1} - t * t) + through * peepholes.third[u];
    const T of_i = dc * g[u] * i[u] * (T{1} - i[u]), of_f = dc * before[u] * f[u] * (T{1} - f[u]);
    di[u] = of_i;
    df[u] = of_f;
    dg[u] = dc * i[u] * (T{1} - g[u] * g[u]);
    d_o[u] = through;
    c_grad[u] = dc * f[u] + of_i * peepholes.first[u] + of_f * peepholes.second[u];
  }
}
// Adds the gradients of peepholes by one row: of i, f and o, n sums each.
template <class T>
void add_peephole_gradients(std::int64_t n, Gates<const T> d, const T* __restrict before,
                            const T* __restrict c, double* __restrict sums) {
  for (std::int64_t u = 0; u < n; ++u) {
    sums[u] += static_cast<double>(d.first[u] * before[u]);
    sums[n + u] += static_cast<double>(d.second[u] * before[u]);
    sums[2 * n + u] += static_cast<double>(d.fourth[u] * c[u]);
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

// The two passes of a gru whose reset gate multiplies the state: first the gates z and n, then, with the gradient of the state behind
// the reset gate, that gate and the state.
template <class T>
void gru_update_gradients(std::int64_t n, const T* __restrict z, const T* __restrict g,
                          const T* __restrict before, T* __restrict h_grad, T* __restrict dz,
                          T* __restrict dn) {
  for (std::int64_t u = 0; u < n; ++u) {
    const T dh = h_grad[u];
    dn[u] = dh * (T{1} - z[u]) * (T{1} - g[u] * g[u]);
    dz[u] = dh * (before[u] - g[u]) * z[u] * (T{1} - z[u]);
    h_grad[u] = dh * z[u];
  }
}
template <class T>
void gru_reset_gradients(std::int64_t n, const T* __restrict r, const T* __restrict before,
                         const T* __restrict reset_grad, T* __restrict h_grad, T* __restrict dr) {
  for (std::int64_t u = 0; u < n; ++u) {
    dr[u] = reset_grad[u] * before[u] * r[u] * (T{1} - r[u]);
    h_grad[u] += reset_grad[u] * r[u];
  }
}

// What a product behind a cell multiplies, again.
template <class T>
void tanh_behind_gate(std::int64_t n, const T* __restrict o, const T* __restrict c, T* __restrict to) {
  for (std::int64_t u = 0; u < n; ++u) to[u] = o[u] * fast_tanh(c[u]);
}
template <class T>
void product_of(std::int64_t n, const T* __restrict a, const T* __restrict b, T* __restrict to) {
  for (std::int64_t u = 0; u < n; ++u) to[u] = a[u] * b[u];
}

}  // namespace heddle::cpu_kernels
