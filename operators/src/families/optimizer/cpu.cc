// Kernels of fused optimizer steps: one pass over weight, state and gradient.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>

#include <heddle/parallel.h>

#include "core/kernel_table.h"
#include "cpu/floating.h"
#include "cpu/loops/chunks.h"
#include "cpu/present_rows.h"
#include "families/optimizer/kernels.h"

namespace heddle::cpu_kernels {
namespace {

// Elements per chunk: enough to amortize passing the chunk to another worker, few enough for a cache.
constexpr std::int64_t kGrain = 16384;

template <class T>
void sgd_plain(const SgdStep& step, std::int64_t n, T* __restrict weight, const T* __restrict grad) {
  const T lr = static_cast<T>(step.lr), scale = static_cast<T>(step.grad_scale);
  const T decay = static_cast<T>(step.weight_decay);
  for (std::int64_t i = 0; i < n; ++i) weight[i] -= lr * (grad[i] * scale + decay * weight[i]);
}

template <class T>
void sgd_momentum(const SgdStep& step, std::int64_t n, T* __restrict weight, T* __restrict velocity,
                  const T* __restrict grad) {
  const T lr = static_cast<T>(step.lr), scale = static_cast<T>(step.grad_scale);
  const T decay = static_cast<T>(step.weight_decay), momentum = static_cast<T>(step.momentum);
  // Nesterov momentum looks one step ahead. Both kinds of momentum are gradient * a + velocity * b: no branch
  // in the loop.
  const T a = step.nesterov ? T(1) : T(0), b = step.nesterov ? momentum : T(1);
  for (std::int64_t i = 0; i < n; ++i) {
    T g = grad[i] * scale + decay * weight[i];
    T v = momentum * velocity[i] + g;
    velocity[i] = v;
    weight[i] -= lr * (a * g + b * v);
  }
}

template <class T>
void adam(const AdamStep& step, std::int64_t n, T* __restrict weight, T* __restrict mean,
          T* __restrict variance, const T* __restrict grad) {
  const T scale = static_cast<T>(step.grad_scale), epsilon = static_cast<T>(step.epsilon);
  const T beta1 = static_cast<T>(step.beta1), beta2 = static_cast<T>(step.beta2);
  const T rest1 = static_cast<T>(1 - step.beta1), rest2 = static_cast<T>(1 - step.beta2);
  const T rate = static_cast<T>(step.lr * step.mean_unbias), unbias = static_cast<T>(step.variance_unbias);
  const T coupled = static_cast<T>(step.decoupled ? 0 : step.weight_decay);
  const T keep = static_cast<T>(step.decoupled ? 1 - step.lr * step.weight_decay : 1);
  for (std::int64_t i = 0; i < n; ++i) {
    T g = grad[i] * scale + coupled * weight[i];
    T m = beta1 * mean[i] + rest1 * g;
    T v = beta2 * variance[i] + rest2 * g * g;
    mean[i] = m;
    variance[i] = v;
    weight[i] = keep * weight[i] - rate * m / (std::sqrt(v * unbias) + epsilon);
  }
}

using cpu_kernels::visit_floating;

void sgd_kernel(const KernelContext&, const NDArray& weight, const NDArray& velocity, const NDArray& grad,
                const SgdStep& step) {
  visit_floating(weight.dtype(), [&]<class T>() {
    T* w = weight.data<T>();
    T* v = velocity.defined() ? velocity.data<T>() : nullptr;
    const T* g = grad.data<const T>();
    parallel_for(weight.size(), kGrain, [&](std::int64_t begin, std::int64_t end) {
      if (v) {
        sgd_momentum(step, end - begin, w + begin, v + begin, g + begin);
      } else {
        sgd_plain(step, end - begin, w + begin, g + begin);
      }
    });
  });
}

void adam_kernel(const KernelContext&, const NDArray& weight, const NDArray& mean, const NDArray& variance,
                 const NDArray& grad, const AdamStep& step) {
  visit_floating(weight.dtype(), [&]<class T>() {
    T *w = weight.data<T>(), *m = mean.data<T>(), *v = variance.data<T>();
    const T* g = grad.data<const T>();
    parallel_for(weight.size(), kGrain, [&](std::int64_t begin, std::int64_t end) {
      adam(step, end - begin, w + begin, m + begin, v + begin, g + begin);
    });
  });
}

// Calls body(row of the weight, row of grad's values) for each row that the gradient has. Each chunk of rows
// has its own copy of body.
template <class Body>
void for_rows(std::span<const std::int64_t> rows, std::int64_t width, const Body& given) {
  const std::int64_t grain = std::max<std::int64_t>(1, kGrain / std::max<std::int64_t>(1, width));
  cpu_kernels::parallel_chunks(static_cast<std::int64_t>(rows.size()), grain,
                               [&](std::int64_t begin, std::int64_t end) {
                                 Body body = given;
                                 for (std::int64_t i = begin; i < end; ++i)
                                   body(rows[static_cast<std::size_t>(i)], i);
                               });
}

void sgd_rows_kernel(const KernelContext&, const NDArray& weight, const NDArray& velocity,
                     const RowSparse& grad, const SgdStep& step) {
  const std::span<const std::int64_t> rows = cpu_kernels::present_rows("sgd_update", grad);
  const std::int64_t width = cpu_kernels::row_width(weight.shape());
  visit_floating(weight.dtype(), [&]<class T>() {
    T* w = weight.data<T>();
    T* v = velocity.defined() ? velocity.data<T>() : nullptr;
    const T* g = grad.values().data<const T>();
    for_rows(rows, width, [&](std::int64_t row, std::int64_t i) {
      if (v) {
        sgd_momentum(step, width, w + row * width, v + row * width, g + i * width);
      } else {
        sgd_plain(step, width, w + row * width, g + i * width);
      }
    });
  });
}

// The step with 1 / (1 - beta^updates) for a number of updates, for both moments; cached since adjacent rows
// often have the same count.
struct RowBias {
  explicit RowBias(const AdamStep& given) : step(given) {}
  const AdamStep& after(std::int64_t count) {
    if (count != updates) {
      updates = count;
      step.mean_unbias = 1 / (1 - std::pow(step.beta1, static_cast<double>(count)));
      step.variance_unbias = 1 / (1 - std::pow(step.beta2, static_cast<double>(count)));
    }
    return step;
  }
  AdamStep step;
  std::int64_t updates = -1;
};

void adam_rows_kernel(const KernelContext&, const NDArray& weight, const NDArray& mean,
                      const NDArray& variance, const NDArray& row_updates, const RowSparse& grad,
                      const AdamStep& step, std::int64_t earlier) {
  const std::span<const std::int64_t> rows = cpu_kernels::present_rows("adam_update", grad);
  const std::int64_t width = cpu_kernels::row_width(weight.shape());
  auto* counts = row_updates.data<std::int64_t>();
  if (row_updates.size() > 0 && counts[0] < 0) std::fill_n(counts, row_updates.size(), earlier);
  visit_floating(weight.dtype(), [&]<class T>() {
    T *w = weight.data<T>(), *m = mean.data<T>(), *v = variance.data<T>();
    const T* g = grad.values().data<const T>();
    for_rows(rows, width, [=, bias = RowBias(step)](std::int64_t row, std::int64_t i) mutable {
      const AdamStep& now = bias.after(++counts[row]);
      adam(now, width, w + row * width, m + row * width, v + row * width, g + i * width);
    });
  });
}

}  // namespace

HEDDLE_CPU_KERNELS(optimizer) {
  table.add<SgdKernel>("sgd_update", DeviceKind::cpu, sgd_kernel);
  table.add<SgdRowsKernel>("sgd_update_rows", DeviceKind::cpu, sgd_rows_kernel);
  table.add<AdamKernel>("adam_update", DeviceKind::cpu, adam_kernel);
  table.add<AdamRowsKernel>("adam_update_rows", DeviceKind::cpu, adam_rows_kernel);
}

}  // namespace heddle::cpu_kernels
