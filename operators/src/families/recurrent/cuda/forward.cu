// The kernels of recurrent networks on a GPU between the products of the forward pass: a thread computes a unit of an element's step.
#include "cuda/report.h"
#include "families/recurrent/cuda/steps.h"

namespace heddle::cuda_kernels {
namespace {

using on_gpu::Type;

HEDDLE_DEVICE bool is_unsigned(Type type) {
  return type == Type::u8 || type == Type::u16 || type == Type::u32 || type == Type::u64;
}

struct Lengths {
  const void* given;
  Type type;
  long long batch, steps;
  long long* lengths;
  FaultSlot* fault;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    for (long long n = thread.global_index(); n < batch; n += thread.global_size()) {
      const unsigned long long bits =
          is_unsigned(type) ? on_gpu::load<unsigned long long>(given, n, type)
                            : static_cast<unsigned long long>(on_gpu::load<long long>(given, n, type));
      const bool fits = bits <= static_cast<unsigned long long>(steps);
      lengths[n] = fits ? static_cast<long long>(bits) : 0;
      if (!fits && fault) report(thread, fault, n, bits);
    }
  }
};

template <class T> struct Rounding {
  Recurrence r;
  const T* from;
  void* to;
  HEDDLE_DEVICE void at(long long i) const { put_operand(r, to, i, from[i]); }
};

template <class T> struct RowsOfX {
  Recurrence r;
  const T* x;
  void* to;
  HEDDLE_DEVICE void at(long long i) const {
    const bool exists = step_of_place(r, number_at(i, r.features).row).exists();
    put_operand(r, to, i, exists ? x[i] : T{0});
  }
};

template <class T> struct ForwardStart {
  Recurrence r;
  ForwardArrays a;

  HEDDLE_DEVICE T sum_of_biases(long long i) const {
    const auto* const of_x = static_cast<const T*>(a.bias_ih);
    const auto* const of_h = static_cast<const T*>(a.bias_hh);
    const long long all = r.gates * r.hidden;
    const bool split = r.cell == Cell::gru;  // the new gate has two biases
    if (i >= all) return of_h ? of_h[i - r.hidden] : T{0};
    const T first = of_x ? of_x[i] : T{0};
    return of_h && !(split && i >= 2 * r.hidden) ? first + of_h[i] : first;
  }
  HEDDLE_DEVICE void at(long long i) const {
    const long long biases = (r.gates + (r.cell == Cell::gru ? 1 : 0)) * r.hidden;
    if (i < biases) static_cast<T*>(a.bias)[i] = sum_of_biases(i);
    if (i < r.batch * r.state) {
      const T first = a.first_h ? static_cast<const T*>(a.first_h)[i] : T{0};
      static_cast<T*>(a.h)[i] = first;
      if (a.h_operand) put_operand(r, a.h_operand, i, first);
    }
    if (r.cell == Cell::lstm && i < r.batch * r.hidden)
      static_cast<T*>(a.c)[i] = a.first_c ? static_cast<const T*>(a.first_c)[i] : T{0};
  }
};

// Behind a step: h of an element that has the step, and 0 in the output of another one.
template <class T> struct Giver {
  const Recurrence& r;
  const ForwardArrays& a;
  HEDDLE_DEVICE void give(long long n, long long place, long long u, T h) const {
    static_cast<T*>(a.h)[n * r.state + u] = h;
    if (a.h_operand) put_operand(r, a.h_operand, n * r.state + u, h);
    static_cast<T*>(a.output)[place * r.state + u] = h;
  }
  HEDDLE_DEVICE void give_nothing(long long place, long long u) const {
    static_cast<T*>(a.output)[place * r.state + u] = T{0};
  }
};

template <class T> struct ForwardCell {
  Recurrence r;
  ForwardArrays a;
  long long time;

  // What the computation of a unit needs.
  struct Unit {
    long long n, u, place;
    T* gates;
    const T* tile;
    const T* bias;
  };
  HEDDLE_DEVICE T sum(const Unit& at, int gate) const {
    const long long i = gate * r.hidden;
    return at.gates[i] + at.tile[i] + at.bias[i];
  }

  HEDDLE_DEVICE T lstm(const Unit& at) const {
    const long long hidden = r.hidden;
    const auto* const holes = static_cast<const T*>(a.peepholes);
    T* const c = static_cast<T*>(a.c) + at.n * hidden + at.u;
    const T before = *c;
    T in = sum(at, 0), forget = sum(at, 1), out = sum(at, 3);
    if (holes) {
      in += holes[at.u] * before;
      forget += holes[hidden + at.u] * before;
    }
    in = sigmoid_of(in);
    forget = sigmoid_of(forget);
    const T added = std::tanh(sum(at, 2)), next = forget * before + in * added;
    if (holes) out += holes[2 * hidden + at.u] * next;
    out = sigmoid_of(out);
    at.gates[0] = in;
    at.gates[hidden] = forget;
    at.gates[2 * hidden] = added;
    at.gates[3 * hidden] = out;
    *c = next;
    static_cast<T*>(a.beside)[at.place * hidden + at.u] = next;
    return out * std::tanh(next);
  }

  HEDDLE_DEVICE T gru(const Unit& at, T before) const {
    const long long hidden = r.hidden;
    const T reset = sigmoid_of(sum(at, 0)), update = sigmoid_of(sum(at, 1));
    const T part = at.tile[2 * hidden] + at.bias[3 * hidden],
            next = std::tanh(at.gates[2 * hidden] + at.bias[2 * hidden] + reset * part);
    at.gates[0] = reset;
    at.gates[hidden] = update;
    at.gates[2 * hidden] = next;
    static_cast<T*>(a.beside)[at.place * hidden + at.u] = part;
    return next + update * (before - next);
  }

  HEDDLE_DEVICE T single(const Unit& at) const {
    const T all = sum(at, 0), h = r.cell == Cell::tanh ? std::tanh(all) : all < T{0} ? T{0} : all;
    return at.gates[0] = h;
  }

  HEDDLE_DEVICE void at(long long i) const {
    const auto [n, u] = number_at(i, r.hidden);
    const long long place = place_of(r, time, n);
    const Giver<T> to{r, a};
    const bool resets = r.cell == Cell::gru_reset_before;
    if (time >= length_of(r, n)) {
      if (!r.projected && !resets) to.give_nothing(place, u);
      return;
    }
    const long long groups = resets ? 2 : r.gates;
    const Unit unit{n,
                    u,
                    place,
                    static_cast<T*>(a.gates) + place * r.gates * r.hidden + u,
                    static_cast<const T*>(a.tile) + n * groups * r.hidden + u,
                    static_cast<const T*>(a.bias) + u};
    if (resets) {
      const T reset = sigmoid_of(sum(unit, 0));
      unit.gates[0] = reset;
      unit.gates[r.hidden] = sigmoid_of(sum(unit, 1));
      return put_operand(r, a.between, i, reset * static_cast<const T*>(a.h)[i]);
    }
    if (r.cell == Cell::lstm) {
      const T h = lstm(unit);
      return r.projected ? put_operand(r, a.between, i, h) : to.give(n, place, u, h);
    }
    to.give(n, place, u, r.cell == Cell::gru ? gru(unit, static_cast<const T*>(a.h)[i]) : single(unit));
  }
};

template <class T> struct ForwardState {
  Recurrence r;
  ForwardArrays a;
  long long time;
  HEDDLE_DEVICE void at(long long i) const {
    const auto [n, u] = number_at(i, r.state);
    const long long place = place_of(r, time, n);
    const Giver<T> to{r, a};
    if (time >= length_of(r, n)) return to.give_nothing(place, u);
    const T product = static_cast<const T*>(a.tile)[i];
    if (r.projected) return to.give(n, place, u, product);
    T* const gates = static_cast<T*>(a.gates) + place * r.gates * r.hidden + u;
    const T before = static_cast<const T*>(a.h)[i],
            next = std::tanh(gates[2 * r.hidden] + product + static_cast<const T*>(a.bias)[2 * r.hidden + u]);
    gates[2 * r.hidden] = next;
    to.give(n, place, u, next + gates[r.hidden] * (before - next));
  }
};

}  // namespace

const char* launch_lengths(void* stream, const void* given, unsigned char type, long long batch,
                           long long steps, long long* lengths, FaultSlot* fault) {
  return on_gpu::launch_over(static_cast<cudaStream_t>(stream), batch,
                             Lengths{given, Type{type}, batch, steps, lengths, fault});
}

const char* launch_rounding(void* stream, const Recurrence& r, const void* from, long long count, void* to) {
  return launch_each(stream, count, Rounding<float>{r, static_cast<const float*>(from), to});
}

const char* launch_rows_of_x(void* stream, const Recurrence& r, const void* x, void* to) {
  const long long count = r.steps * r.batch * r.features;
  return r.f64 ? launch_each(stream, count, RowsOfX<double>{r, static_cast<const double*>(x), to})
               : launch_each(stream, count, RowsOfX<float>{r, static_cast<const float*>(x), to});
}

const char* launch_forward_start(void* stream, const Recurrence& r, const ForwardArrays& arrays) {
  const long long biases = (r.gates + 1) * r.hidden, h = r.batch * r.state, c = r.batch * r.hidden;
  const long long states = h > c ? h : c, count = biases > states ? biases : states;
  return r.f64 ? launch_each(stream, count, ForwardStart<double>{r, arrays})
               : launch_each(stream, count, ForwardStart<float>{r, arrays});
}

const char* launch_forward_cell(void* stream, const Recurrence& r, const ForwardArrays& arrays,
                                long long time) {
  const long long count = r.batch * r.hidden;
  return r.f64 ? launch_each(stream, count, ForwardCell<double>{r, arrays, time})
               : launch_each(stream, count, ForwardCell<float>{r, arrays, time});
}

const char* launch_forward_state(void* stream, const Recurrence& r, const ForwardArrays& arrays,
                                 long long time) {
  const long long count = r.batch * r.state;
  return r.f64 ? launch_each(stream, count, ForwardState<double>{r, arrays, time})
               : launch_each(stream, count, ForwardState<float>{r, arrays, time});
}

}  // namespace heddle::cuda_kernels
