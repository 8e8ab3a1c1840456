// Kernels of softmax and cross entropy: each line is shifted by its maximum first, so that no exponential
// overflows.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include <heddle/parallel.h>

#include "core/kernel_table.h"
#include "cpu/floating.h"
#include "cpu/pairwise.h"
#include "cpu/vector_math.h"
#include "families/softmax/kernels.h"

namespace heddle::cpu_kernels {
namespace {

constexpr std::int64_t kGrain = 16384;  // elements per chunk

std::int64_t lines_per_chunk(std::int64_t length) {
  return std::max<std::int64_t>(1, kGrain / std::max<std::int64_t>(1, length));
}

// Elements of a line are `step` apart. The functions of a line are also compiled for step 1, which the
// compiler vectorizes.
using Neighbours = std::integral_constant<std::int64_t, 1>;

template <class T> T larger(T a, T b) {
  const T most = b > a ? b : a;
  return b != b ? b : most;
}

// The maximum of a line; NaN if the line holds one, so that NaN reaches the whole result.
template <class T, class Step> T line_max(const T* x, std::int64_t length, Step step) {
  constexpr std::int64_t kLanes = 32;  // independent maxima, for vector registers
  T lanes[kLanes];
  std::fill_n(lanes, kLanes, -std::numeric_limits<T>::infinity());
  std::int64_t i = 0;
  for (; i + kLanes <= length; i += kLanes) {
    for (std::int64_t l = 0; l < kLanes; ++l) lanes[l] = larger(lanes[l], x[(i + l) * step]);
  }
  T most = -std::numeric_limits<T>::infinity();
  for (; i < length; ++i) most = larger(most, x[i * step]);
  for (const T lane : lanes) most = larger(most, lane);
  return most;
}

template <class T> T exponential(T x) {
  if constexpr (std::is_same_v<T, float>) {
    return fast_exp(x);
  } else {
    return std::exp(x);
  }
}

// y = exp(x - shift). Returns the sum of y, added in double: a float would lose digits for long lines.
template <class T, class Step> T exponentials(const T* x, T* y, std::int64_t length, Step step, T shift) {
  for (std::int64_t i = 0; i < length; ++i) y[i * step] = exponential(x[i * step] - shift);
  return static_cast<T>(pairwise_sum(0, length, [=](std::int64_t i) { return y[i * step]; }));
}

template <class T, class Step> void softmax_line(const T* x, T* y, std::int64_t length, Step step, bool log) {
  const T shift = line_max(x, length, step);
  const T sum = exponentials(x, y, length, step, shift);
  if (log) {
    const T log_sum = std::log(sum);
    for (std::int64_t i = 0; i < length; ++i) y[i * step] = x[i * step] - shift - log_sum;
  } else {
    const T share = T(1) / sum;
    for (std::int64_t i = 0; i < length; ++i) y[i * step] *= share;
  }
}

template <class T, class Step>
void softmax_line_backward(const T* grad, const T* y, T* x_grad, std::int64_t length, Step step, bool log) {
  const auto weighted = [=](std::int64_t i) {
    const auto g = static_cast<double>(grad[i * step]);
    return log ? g : g * static_cast<double>(y[i * step]);
  };
  const T sum = static_cast<T>(pairwise_sum(0, length, weighted));
  for (std::int64_t i = 0; i < length; ++i) {
    const std::int64_t at = i * step;
    x_grad[at] = log ? grad[at] - exponential(y[at]) * sum : y[at] * (grad[at] - sum);
  }
}

// Calls body(offset of the line's first element) for every line.
template <class F> void for_each_line(const SoftmaxProblem& p, F&& body) {
  parallel_for(p.outer * p.inner, lines_per_chunk(p.length), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t line = begin; line < end; ++line) {
      body(line / p.inner * p.length * p.inner + line % p.inner);
    }
  });
}

// Calls body(step of a line's elements), with a constant for step 1.
template <class F> void with_step(const SoftmaxProblem& p, F&& body) {
  p.inner == 1 ? body(Neighbours()) : body(p.inner);
}

void softmax_kernel(const KernelContext&, const SoftmaxProblem& p, const NDArray& x, const NDArray& y) {
  if (p.length == 0) return;
  visit_floating(x.dtype(), [&]<class T>() {
    const T* from = x.data<const T>();
    T* to = y.data<T>();
    with_step(p, [&](auto step) {
      for_each_line(p, [&](std::int64_t at) { softmax_line(from + at, to + at, p.length, step, p.log); });
    });
  });
}

void softmax_backward_kernel(const KernelContext&, const SoftmaxProblem& p, const NDArray& grad,
                             const NDArray& y, const NDArray& x_grad) {
  if (p.length == 0) return;
  visit_floating(grad.dtype(), [&]<class T>() {
    const T *g = grad.data<const T>(), *out = y.data<const T>();
    T* to = x_grad.data<T>();
    with_step(p, [&](auto step) {
      for_each_line(p, [&](std::int64_t at) {
        softmax_line_backward(g + at, out + at, to + at, p.length, step, p.log);
      });
    });
  });
}

// Calls fn.operator()<T, Label>() with the types of the values and of the labels.
template <class F> void visit_labels(DType values, DType labels, F&& fn) {
  visit_floating(values, [&]<class T>() {
    if (labels == DType::i64) {
      fn.template operator()<T, std::int64_t>();
    } else if (labels == DType::i32) {
      fn.template operator()<T, std::int32_t>();
    } else {
      fn.template operator()<T, std::uint8_t>();
    }
  });
}

// Converts a row of logits to probabilities. Returns -log of the label's probability, computed from the
// logit, since the probability itself may be rounded to 0.
template <class T>
double cross_entropy_row(const T* x, T* probabilities, std::int64_t classes, std::int64_t label) {
  const T shift = line_max(x, classes, Neighbours());
  const T sum = exponentials(x, probabilities, classes, Neighbours(), shift);
  const T share = T(1) / sum;
  for (std::int64_t i = 0; i < classes; ++i) probabilities[i] *= share;
  return static_cast<double>(std::log(sum)) - static_cast<double>(x[label] - shift);
}

void cross_entropy_kernel(const KernelContext&, const NDArray& logits, const NDArray& labels,
                          const NDArray& probabilities, const NDArray& loss) {
  const std::int64_t rows = logits.shape()[0], classes = logits.shape()[1];
  visit_labels(logits.dtype(), labels.dtype(), [&]<class T, class Label>() {
    const T* x = logits.data<const T>();
    const Label* label = labels.data<const Label>();
    T* p = probabilities.data<T>();
    std::vector<double> losses(static_cast<std::size_t>(rows));
    parallel_for(rows, lines_per_chunk(classes), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        const auto at = static_cast<std::int64_t>(label[row]);
        if (at < 0 || at >= classes) refuse_label(at, row, classes);
        losses[static_cast<std::size_t>(row)] =
            cross_entropy_row(x + row * classes, p + row * classes, classes, at);
      }
    });
    const double sum =
        pairwise_sum(0, rows, [&](std::int64_t row) { return losses[static_cast<std::size_t>(row)]; });
    *loss.data<T>() = static_cast<T>(sum / static_cast<double>(rows));
  });
}

void cross_entropy_backward_kernel(const KernelContext&, const NDArray& grad, const NDArray& probabilities,
                                   const NDArray& labels, const NDArray& logits_grad) {
  const std::int64_t rows = probabilities.shape()[0], classes = probabilities.shape()[1];
  visit_labels(grad.dtype(), labels.dtype(), [&]<class T, class Label>() {
    const T factor = *grad.data<const T>() / static_cast<T>(rows);
    const T* p = probabilities.data<const T>();
    const Label* label = labels.data<const Label>();
    T* to = logits_grad.data<T>();
    parallel_for(rows, lines_per_chunk(classes), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin * classes; i < end * classes; ++i) to[i] = p[i] * factor;
      for (std::int64_t row = begin; row < end; ++row) {
        to[row * classes + static_cast<std::int64_t>(label[row])] -= factor;
      }
    });
  });
}

}  // namespace

HEDDLE_CPU_KERNELS(softmax) {
  table.add<SoftmaxKernel>("softmax", DeviceKind::cpu, softmax_kernel);
  table.add<SoftmaxBackwardKernel>("softmax_backward", DeviceKind::cpu, softmax_backward_kernel);
  table.add<CrossEntropyKernel>("cross_entropy", DeviceKind::cpu, cross_entropy_kernel);
  table.add<CrossEntropyBackwardKernel>("cross_entropy_backward", DeviceKind::cpu,
                                        cross_entropy_backward_kernel);
}

}  // namespace heddle::cpu_kernels
