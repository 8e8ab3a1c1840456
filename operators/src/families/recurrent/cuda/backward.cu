// The kernels of recurrent networks on a GPU between the products of the backward pass: a thread computes a unit of an element's step.
// A product adds to h_grad what a step gives to the state before it; a step that an element does not have adds 0.
#include "families/recurrent/cuda/steps.h"

namespace heddle::cuda_kernels {
namespace {

template <class T> struct BackwardStart {
  Recurrence r;
  BackwardArrays a;
  HEDDLE_DEVICE void at(long long i) const {
    if (i < r.batch * r.state) static_cast<T*>(a.h_grad)[i] = static_cast<const T*>(a.final_h_grad)[i];
    if (r.cell == Cell::lstm && i < r.batch * r.hidden)
      static_cast<T*>(a.c_grad)[i] = static_cast<const T*>(a.final_c_grad)[i];
  }
};

template <class T> struct BackwardState {
  Recurrence r;
  BackwardArrays a;
  long long time;
  HEDDLE_DEVICE void at(long long i) const {
    const auto [n, u] = number_at(i, r.state);
    const long long at = place_of(r, time, n) * r.state + u;
    const bool exists = time < length_of(r, n);
    T* const h_grad = static_cast<T*>(a.h_grad) + i;
    put_operand(r, a.state_grads, at, exists ? *h_grad + static_cast<const T*>(a.output_grad)[at] : T{0});
    if (exists) *h_grad = T{0};
  }
};

template <class T> struct BackwardCell {
  Recurrence r;
  BackwardArrays a;
  long long time;

  struct Unit {
    Step step;
    long long u, place;
    const T* gates;
    T h_grad;  // of what the cell gives
  };
  HEDDLE_DEVICE void put(long long place, int group, long long u, T value) const {
    const long long at = place * r.width + group * r.hidden + u;
    static_cast<T*>(a.d)[at] = value;
    if (a.d_operand) put_operand(r, a.d_operand, at, value);
  }

  HEDDLE_DEVICE void lstm(const Unit& at) const {
    const long long hidden = r.hidden;
    const auto* const holes = static_cast<const T*>(a.peepholes);
    const T in = at.gates[0], forget = at.gates[hidden], added = at.gates[2 * hidden],
            out = at.gates[3 * hidden];
    const T c = static_cast<const T*>(a.beside)[at.place * hidden + at.u],
            before = state_before<T>(r, at.step, a.first_c, a.beside, hidden, at.u);
    T* const c_grad = static_cast<T*>(a.c_grad) + at.step.n * hidden + at.u;
    const T t = std::tanh(c), dh = at.h_grad, of_out = dh * t * out * (T{1} - out);
    T dc = *c_grad + dh * out * (T{1} - t * t);
    if (holes) dc += of_out * holes[2 * hidden + at.u];
    const T of_in = dc * added * in * (T{1} - in), of_forget = dc * before * forget * (T{1} - forget);
    put(at.place, 0, at.u, of_in);
    put(at.place, 1, at.u, of_forget);
    put(at.place, 2, at.u, dc * in * (T{1} - added * added));
    put(at.place, 3, at.u, of_out);
    T next = dc * forget;
    if (holes) next += of_in * holes[at.u] + of_forget * holes[hidden + at.u];
    *c_grad = next;
  }

  // The gradient of the state before that comes through no gate. Groups of d: the new gate's part from x, reset, update, the new gate's
  // part from the state.
  HEDDLE_DEVICE T gru(const Unit& at) const {
    const long long hidden = r.hidden;
    const T reset = at.gates[0], update = at.gates[hidden], next = at.gates[2 * hidden], dh = at.h_grad;
    const T before = state_before<T>(r, at.step, a.first_h, a.output, hidden, at.u),
            through = dh * (T{1} - update) * (T{1} - next * next),
            of_update = dh * (before - next) * update * (T{1} - update);
    if (r.cell == Cell::gru_reset_before) {
      put(at.place, 1, at.u, of_update);
      put(at.place, 2, at.u, through);
    } else {
      const T part = static_cast<const T*>(a.beside)[at.place * hidden + at.u];
      put(at.place, 0, at.u, through);
      put(at.place, 1, at.u, through * part * reset * (T{1} - reset));
      put(at.place, 2, at.u, of_update);
      put(at.place, 3, at.u, through * reset);
    }
    return dh * update;
  }

  HEDDLE_DEVICE void at(long long i) const {
    const auto [n, u] = number_at(i, r.hidden);
    const long long place = place_of(r, time, n);
    const Step step{time, n, length_of(r, n)};
    if (!step.exists()) {
      const int groups = r.hidden > 0 ? static_cast<int>(r.width / r.hidden) : 0;
      for (int group = 0; group < groups; ++group) put(place, group, u, T{0});
      return;
    }
    T* const h_grad = r.projected ? nullptr : static_cast<T*>(a.h_grad) + i;
    const Unit unit{step, u, place, static_cast<const T*>(a.gates) + place * r.gates * r.hidden + u,
                    h_grad ? *h_grad + static_cast<const T*>(a.output_grad)[place * r.hidden + u]
                           : static_cast<const T*>(a.tile)[i]};
    T rest{0};
    const T gate = unit.gates[0];
    if (r.cell == Cell::tanh)
      put(place, 0, u, unit.h_grad * (T{1} - gate * gate));
    else if (r.cell == Cell::relu)
      put(place, 0, u, gate <= T{0} ? T{0} : unit.h_grad);
    else if (r.cell == Cell::lstm)
      lstm(unit);
    else
      rest = gru(unit);
    if (h_grad) *h_grad = rest;
  }
};

template <class T> struct BackwardReset {
  Recurrence r;
  BackwardArrays a;
  long long time;
  HEDDLE_DEVICE void at(long long i) const {
    const auto [n, u] = number_at(i, r.hidden);
    const Step step{time, n, length_of(r, n)};
    if (!step.exists()) return;
    const long long place = place_of(r, time, n), at = place * r.width + u;
    const T reset = static_cast<const T*>(a.gates)[place * r.gates * r.hidden + u],
            reset_grad = static_cast<const T*>(a.tile)[i];
    const T value =
        reset_grad * state_before<T>(r, step, a.first_h, a.output, r.hidden, u) * reset * (T{1} - reset);
    static_cast<T*>(a.d)[at] = value;
    if (a.d_operand) put_operand(r, a.d_operand, at, value);
    static_cast<T*>(a.h_grad)[i] += reset_grad * reset;
  }
};

template <class T> struct StatesBefore {
  Recurrence r;
  BackwardArrays a;
  void* to;
  HEDDLE_DEVICE void at(long long i) const {
    const auto [place, u] = number_at(i, r.state);
    const Step step = step_of_place(r, place);
    put_operand(r, to, i, step.exists() ? state_before<T>(r, step, a.first_h, a.output, r.state, u) : T{0});
  }
};

template <class T> struct GatedRows {
  Recurrence r;
  BackwardArrays a;
  void* to;
  HEDDLE_DEVICE void at(long long i) const {
    const auto [place, u] = number_at(i, r.hidden);
    const Step step = step_of_place(r, place);
    if (!step.exists()) return put_operand(r, to, i, T{0});
    const T* const gates = static_cast<const T*>(a.gates) + place * r.gates * r.hidden + u;
    put_operand(r, to, i,
                r.projected ? gates[3 * r.hidden] * std::tanh(static_cast<const T*>(a.beside)[i])
                            : gates[0] * state_before<T>(r, step, a.first_h, a.output, r.hidden, u));
  }
};

template <class T> struct PeepholeTerms {
  Recurrence r;
  BackwardArrays a;
  T* to;
  HEDDLE_DEVICE void at(long long i) const {
    const auto [place, u] = number_at(i, r.hidden);
    const Step step = step_of_place(r, place);
    const T* const d = static_cast<const T*>(a.d) + place * r.width + u;
    T* const terms = to + place * 3 * r.hidden + u;
    const bool exists = step.exists();
    const T before = exists ? state_before<T>(r, step, a.first_c, a.beside, r.hidden, u) : T{0};
    terms[0] = d[0] * before;
    terms[r.hidden] = d[r.hidden] * before;
    terms[2 * r.hidden] = exists ? d[3 * r.hidden] * static_cast<const T*>(a.beside)[i] : T{0};
  }
};

template <class T> struct BiasGradients {
  Recurrence r;
  const T* sums;
  T *of_ih, *of_hh;
  HEDDLE_DEVICE void at(long long i) const {
    const bool split = r.cell == Cell::gru;
    const long long of_state = split ? r.hidden : 0;  // the first column that the state's product has
    if (of_hh) of_hh[i] = sums[of_state + i];
    if (of_ih) of_ih[i] = split && i >= 2 * r.hidden ? sums[i - 2 * r.hidden] : sums[of_state + i];
  }
};

}  // namespace

const char* launch_backward_start(void* stream, const Recurrence& r, const BackwardArrays& arrays) {
  const long long h = r.batch * r.state, c = r.batch * r.hidden, count = h > c ? h : c;
  return r.f64 ? launch_each(stream, count, BackwardStart<double>{r, arrays})
               : launch_each(stream, count, BackwardStart<float>{r, arrays});
}

const char* launch_backward_state(void* stream, const Recurrence& r, const BackwardArrays& arrays,
                                  long long time) {
  const long long count = r.batch * r.state;
  return r.f64 ? launch_each(stream, count, BackwardState<double>{r, arrays, time})
               : launch_each(stream, count, BackwardState<float>{r, arrays, time});
}

const char* launch_backward_cell(void* stream, const Recurrence& r, const BackwardArrays& arrays,
                                 long long time) {
  const long long count = r.batch * r.hidden;
  return r.f64 ? launch_each(stream, count, BackwardCell<double>{r, arrays, time})
               : launch_each(stream, count, BackwardCell<float>{r, arrays, time});
}

const char* launch_backward_reset(void* stream, const Recurrence& r, const BackwardArrays& arrays,
                                  long long time) {
  const long long count = r.batch * r.hidden;
  return r.f64 ? launch_each(stream, count, BackwardReset<double>{r, arrays, time})
               : launch_each(stream, count, BackwardReset<float>{r, arrays, time});
}

const char* launch_states_before(void* stream, const Recurrence& r, const BackwardArrays& arrays, void* to) {
  const long long count = r.steps * r.batch * r.state;
  return r.f64 ? launch_each(stream, count, StatesBefore<double>{r, arrays, to})
               : launch_each(stream, count, StatesBefore<float>{r, arrays, to});
}

const char* launch_gated_rows(void* stream, const Recurrence& r, const BackwardArrays& arrays, void* to) {
  const long long count = r.steps * r.batch * r.hidden;
  return r.f64 ? launch_each(stream, count, GatedRows<double>{r, arrays, to})
               : launch_each(stream, count, GatedRows<float>{r, arrays, to});
}

const char* launch_peephole_terms(void* stream, const Recurrence& r, const BackwardArrays& arrays, void* to) {
  const long long count = r.steps * r.batch * r.hidden;
  return r.f64 ? launch_each(stream, count, PeepholeTerms<double>{r, arrays, static_cast<double*>(to)})
               : launch_each(stream, count, PeepholeTerms<float>{r, arrays, static_cast<float*>(to)});
}

const char* launch_bias_gradients(void* stream, const Recurrence& r, const void* sums, void* of_ih,
                                  void* of_hh) {
  const long long count = r.gates * r.hidden;
  if (r.f64)
    return launch_each(stream, count,
                       BiasGradients<double>{r, static_cast<const double*>(sums), static_cast<double*>(of_ih),
                                             static_cast<double*>(of_hh)});
  return launch_each(stream, count,
                     BiasGradients<float>{r, static_cast<const float*>(sums), static_cast<float*>(of_ih),
                                          static_cast<float*>(of_hh)});
}

}  // namespace heddle::cuda_kernels
