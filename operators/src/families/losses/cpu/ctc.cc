// Kernels of the loss of connectionist temporal classification. A target is a chain of states: blanks and labels in turn. Sequences of
// the batch run in parallel, each in one thread.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include <heddle/parallel.h>

#include "core/kernel_table.h"
#include "cpu/floating.h"
#include "cpu/vector_math.h"
#include "families/losses/ctc_kernels.h"

namespace heddle::cpu_kernels {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();
constexpr std::int64_t kPadding = 2;              // elements around a row of states that never occur
constexpr std::int64_t kSequenceGrain = 1 << 14;  // states of all steps per chunk

struct Sequence {
  std::int64_t steps, length;  // of the target
  std::int64_t first_label;    // position in CtcBatch::labels
  std::int64_t first_state;    // position in the array of states
};

// Lengths and labels, checked and copied: later changes of their memory do no harm.
struct CtcBatch {
  CtcBatch(const CtcProblem& p, const CtcIds& ids) {
    const auto* const targets = ids.targets.data<const std::int64_t>();
    const auto* const steps = ids.input_lengths.data<const std::int64_t>();
    const auto* const lengths = ids.target_lengths.data<const std::int64_t>();
    std::int64_t read = 0, state = 0;
    for (std::int64_t n = 0; n < p.batch; ++n) {
      const std::int64_t length = checked("target length", lengths[n], n, p.longest);
      const Sequence sequence{checked("input length", steps[n], n, p.steps), length,
                              static_cast<std::int64_t>(labels.size()), state};
      if (!p.flat) read = n * p.longest;
      if (read + length > p.labels) refuse_large_ctc_sum(p);
      for (std::int64_t i = 0; i < length; ++i) labels.push_back(label(p, targets[read + i], n, i));
      read += length;
      state += p.steps * (2 * (p.flat ? length : p.longest) + 1);
      sequences.push_back(sequence);
    }
    if (p.flat && read != p.labels) refuse_ctc_sum(p, read);
  }

  std::vector<Sequence> sequences;
  std::vector<std::int64_t> labels;

 private:
  static std::int64_t checked(const char* what, std::int64_t value, std::int64_t n, std::int64_t most) {
    if (value < 0 || value > most) refuse_ctc_length("ctc_loss", what, n, value, most);
    return value;
  }
  static std::int64_t label(const CtcProblem& p, std::int64_t value, std::int64_t n, std::int64_t i) {
    if (value < 0 || value >= p.classes || value == p.blank) refuse_ctc_label(p, n, i, value);
    return value;
  }
};

// A logarithm with its derivative along a direction.
struct Dual {
  double value, tangent;
};
Dual operator+(Dual a, Dual b) { return {a.value + b.value, a.tangent + b.tangent}; }
Dual operator+(Dual a, double b) { return {a.value + b, a.tangent}; }
double value_of(double a) { return a; }
double value_of(Dual a) { return a.value; }
template <class Number> Number never() {
  if constexpr (std::is_same_v<Number, Dual>) {
    return {kNever, 0};
  } else {
    return kNever;
  }
}

// log(e^a + e^b + e^c). With T = float the greatest stays f64, and what is added to it, at most log(3), is computed in f32.
template <class T> [[gnu::always_inline]] inline double log_sum(double a, double b, double c) {
  const double ab = a < b ? b : a, most = ab < c ? c : ab, middle = most == kNever ? 0 : most;
  const T sum = fast_exp(static_cast<T>(a - middle)) + fast_exp(static_cast<T>(b - middle)) +
                fast_exp(static_cast<T>(c - middle));
  return most + static_cast<double>(fast_log(sum));
}
template <class T> Dual log_sum(Dual a, Dual b, Dual c) {
  const double most = std::max(std::max(a.value, b.value), c.value);
  if (most == kNever) return never<Dual>();
  const double x = std::exp(a.value - most), y = std::exp(b.value - most), z = std::exp(c.value - most);
  const double sum = x + y + z;
  return {most + std::log(sum), (x * a.tangent + y * b.tangent + z * c.tangent) / sum};
}

template <class T> [[gnu::always_inline]] inline double exponential(double x) {
  return static_cast<double>(fast_exp(static_cast<T>(x)));
}
template <class T> Dual exponential(Dual x) {
  const double value = std::exp(x.value);
  return {value, value * x.tangent};
}

// The states of one sequence over its steps. Number: double, or Dual with the direction u.
template <class T, class Number> class Chain {
 public:
  Chain(const CtcProblem& p, const CtcBatch& batch, std::int64_t n, const T* x, const T* u)
      : p_(p),
        steps_(batch.sequences[static_cast<std::size_t>(n)].steps),
        states_(2 * batch.sequences[static_cast<std::size_t>(n)].length + 1),
        x_(x + n * p.classes),
        u_(u ? u + n * p.classes : nullptr),
        classes_(static_cast<std::size_t>(states_), p.blank),
        skip_(static_cast<std::size_t>(states_ + kPadding), kNever),
        emission_(static_cast<std::size_t>(states_)) {
    const std::int64_t* const labels =
        batch.labels.data() + batch.sequences[static_cast<std::size_t>(n)].first_label;
    for (std::int64_t s = 1; s < states_; s += 2) {
      classes_[static_cast<std::size_t>(s)] = labels[s / 2];
      if (s > 1 && labels[s / 2] != labels[s / 2 - 1]) skip_[static_cast<std::size_t>(s)] = 0;
    }
  }
  std::int64_t states() const { return states_; }
  std::int64_t class_of(std::int64_t s) const { return classes_[static_cast<std::size_t>(s)]; }

  // The logarithm of the target's probability. Rows of what leads to each state are left in `rows`, of which there are 2, or
  // as many as steps.
  Number run_forward(std::int64_t rows) {
    if (steps_ == 0) return states_ == 1 ? Number{} : never<Number>();
    alpha_.assign(static_cast<std::size_t>(rows * width()), never<Number>());
    Number* row = this->row(0);
    emit(0);
    for (std::int64_t s = 0; s < std::min<std::int64_t>(2, states_); ++s)
      row[s] = emission_[static_cast<std::size_t>(s)];
    for (std::int64_t t = 1; t < steps_; ++t) {
      const Number* const before = row;
      row = this->row(t % rows);
      emit(t);
      const Number* const emission = emission_.data();
      const double* const skip = skip_.data();
      for (std::int64_t s = 0; s < states_; ++s)
        row[s] = log_sum<T>(before[s], before[s - 1], before[s - 2] + skip[s]) + emission[s];
    }
    return log_sum<T>(row[states_ - 1], row[states_ - 2], never<Number>());
  }

  // After run_forward(steps): calls found(t, probabilities) with those of all states at step t, given the target, whose
  // probability is `total`.
  template <class Found> void run_backward(Number total, const Found& found) {
    const double minus_total = -value_of(total);
    std::vector<Number> after(static_cast<std::size_t>(states_ + kPadding), never<Number>()),
        rest(static_cast<std::size_t>(states_), never<Number>()), probability(rest.size());
    for (std::int64_t s = std::max<std::int64_t>(0, states_ - 2); s < states_; ++s)
      rest[static_cast<std::size_t>(s)] = Number{};
    Number *const to = rest.data(), *const next = after.data(), *const p = probability.data();
    const double* const skip = skip_.data();
    for (std::int64_t t = steps_ - 1; t >= 0; --t) {
      const Number* const alpha = row(t);
      for (std::int64_t s = 0; s < states_; ++s) p[s] = exponential<T>(alpha[s] + to[s] + minus_total);
      if constexpr (std::is_same_v<Number, Dual>)
        for (std::int64_t s = 0; s < states_; ++s) p[s].tangent -= p[s].value * total.tangent;
      found(t, p);
      if (t == 0) break;
      emit(t);
      for (std::int64_t s = 0; s < states_; ++s) next[s] = to[s] + emission_[static_cast<std::size_t>(s)];
      for (std::int64_t s = 0; s < states_; ++s)
        to[s] = log_sum<T>(next[s], next[s + 1], next[s + 2] + skip[s + 2]);
    }
  }

 private:
  std::int64_t width() const { return states_ + kPadding; }
  Number* row(std::int64_t i) { return alpha_.data() + i * width() + kPadding; }
  void emit(std::int64_t t) {
    const std::int64_t begin = t * p_.batch * p_.classes;
    for (std::int64_t s = 0; s < states_; ++s) {
      const std::int64_t at = begin + class_of(s);
      const auto value = static_cast<double>(x_[at]);
      if constexpr (std::is_same_v<Number, Dual>) {
        emission_[static_cast<std::size_t>(s)] = {value, static_cast<double>(u_[at])};
      } else {
        emission_[static_cast<std::size_t>(s)] = value;
      }
    }
  }

  const CtcProblem& p_;
  const std::int64_t steps_, states_;
  const T *const x_, *const u_;
  std::vector<std::int64_t> classes_;
  std::vector<double> skip_;  // 0 where the label before the last blank may come directly before
  std::vector<Number> emission_, alpha_;
};

// Calls body(n) for each sequence.
template <class Body> void for_each_sequence(const CtcProblem& p, const Body& body) {
  const std::int64_t work = std::max<std::int64_t>(1, p.states() / std::max<std::int64_t>(1, p.batch));
  parallel_for(p.batch, std::max<std::int64_t>(1, kSequenceGrain / work),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t n = begin; n < end; ++n) body(n);
               });
}

void ctc_kernel(const KernelContext&, const CtcProblem& p, const NDArray& x, const CtcIds& ids,
                const NDArray& losses, const NDArray& states) {
  const CtcBatch batch(p, ids);
  visit_floating(x.dtype(), [&]<class T>() {
    const T* const from = x.data<const T>();
    T *const loss = losses.data<T>(), *const all = states.defined() ? states.data<T>() : nullptr;
    for_each_sequence(p, [&](std::int64_t n) {
      const Sequence& sequence = batch.sequences[static_cast<std::size_t>(n)];
      Chain<T, double> chain(p, batch, n, from, nullptr);
      const double total =
          chain.run_forward(all ? sequence.steps : std::min<std::int64_t>(2, sequence.steps));
      const bool never_occurs = total == kNever;
      loss[n] = never_occurs && p.zero_infinity ? T{0} : static_cast<T>(0 - total);
      if (!all) return;
      T* const of_states = all + sequence.first_state;
      if (never_occurs) {
        std::fill_n(of_states, sequence.steps * chain.states(), T{0});
      } else if (sequence.steps > 0) {
        chain.run_backward(total, [&](std::int64_t t, const double* probability) {
          std::transform(probability, probability + chain.states(), of_states + t * chain.states(),
                         [](double value) { return static_cast<T>(value); });
        });
      }
    });
  });
}

void ctc_backward_kernel(const KernelContext&, const CtcProblem& p, const NDArray& g, const CtcIds& ids,
                         const NDArray& states, const NDArray& x_grad) {
  const CtcBatch batch(p, ids);
  visit_floating(g.dtype(), [&]<class T>() {
    const T *const scale = g.data<const T>(), *const all = states.data<const T>();
    T* const grad = x_grad.data<T>();
    for_each_sequence(p, [&](std::int64_t n) {
      const Sequence& sequence = batch.sequences[static_cast<std::size_t>(n)];
      const std::int64_t* const labels = batch.labels.data() + sequence.first_label;
      const std::int64_t count = 2 * sequence.length + 1;
      for (std::int64_t t = 0; t < p.steps; ++t) {
        T* const row = grad + (t * p.batch + n) * p.classes;
        std::fill_n(row, p.classes, T{0});
        if (t >= sequence.steps) continue;
        const T* const probability = all + sequence.first_state + t * count;
        for (std::int64_t s = 0; s < count; ++s)
          if (probability[s] != 0) row[s % 2 == 0 ? p.blank : labels[s / 2]] -= scale[n] * probability[s];
      }
    });
  });
}

void ctc_curvature_kernel(const KernelContext&, const CtcProblem& p, const NDArray& g, const NDArray& x,
                          const CtcIds& ids, const NDArray& u, const NDArray& g_grad, const NDArray& x_grad) {
  const CtcBatch batch(p, ids);
  visit_floating(x.dtype(), [&]<class T>() {
    const T *const scale = g.data<const T>(), *const from = x.data<const T>(),
                   *const direction = u.data<const T>();
    T *const of_scale = g_grad.data<T>(), *const grad = x_grad.data<T>();
    for_each_sequence(p, [&](std::int64_t n) {
      for (std::int64_t t = 0; t < p.steps; ++t)
        std::fill_n(grad + (t * p.batch + n) * p.classes, p.classes, T{0});
      of_scale[n] = 0;
      const std::int64_t steps = batch.sequences[static_cast<std::size_t>(n)].steps;
      Chain<T, Dual> chain(p, batch, n, from, direction);
      const Dual total = chain.run_forward(steps);
      if (total.value == kNever || steps == 0) return;
      of_scale[n] = static_cast<T>(-total.tangent);
      const auto factor = static_cast<double>(scale[n]);
      chain.run_backward(total, [&](std::int64_t t, const Dual* probability) {
        T* const row = grad + (t * p.batch + n) * p.classes;
        for (std::int64_t s = 0; s < chain.states(); ++s)
          row[chain.class_of(s)] -= static_cast<T>(factor * probability[s].tangent);
      });
    });
  });
}

}  // namespace

HEDDLE_CPU_KERNELS(ctc) {
  table.add<CtcKernel>("ctc_loss", DeviceKind::cpu, ctc_kernel);
  table.add<CtcBackwardKernel>("ctc_loss_backward", DeviceKind::cpu, ctc_backward_kernel);
  table.add<CtcCurvatureKernel>("ctc_loss_curvature", DeviceKind::cpu, ctc_curvature_kernel);
}

}  // namespace heddle::cpu_kernels
