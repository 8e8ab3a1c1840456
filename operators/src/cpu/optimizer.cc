// Fused optimizer steps: one pass over weight, state and gradient.
#include <cmath>
#include <cstdint>

#include <heddle/parallel.h>

#include "cpu/register.h"
#include "kernels/optimizer_kernels.h"

namespace heddle {
namespace {

// Elements a chunk: large against the cost of handing it to another worker, small enough for a cache.
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
  // Nesterov looks one step ahead; both forms are gradient * a + velocity * b, which keeps the loop free of branches.
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

// Weights are f32 or f64: the kernels are not built for other dtypes.
template <class F> void visit_floating(DType dtype, F&& fn) {
  if (dtype == DType::f64) {
    fn.template operator()<double>();
  } else {
    fn.template operator()<float>();
  }
}

void sgd_kernel(const NDArray& weight, const NDArray& velocity, const NDArray& grad, const SgdStep& step) {
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

void adam_kernel(const NDArray& weight, const NDArray& mean, const NDArray& variance, const NDArray& grad,
                 const AdamStep& step) {
  visit_floating(weight.dtype(), [&]<class T>() {
    T *w = weight.data<T>(), *m = mean.data<T>(), *v = variance.data<T>();
    const T* g = grad.data<const T>();
    parallel_for(weight.size(), kGrain, [&](std::int64_t begin, std::int64_t end) {
      adam(step, end - begin, w + begin, m + begin, v + begin, g + begin);
    });
  });
}

}  // namespace

void cpu_kernels::register_optimizer(KernelTable& table) {
  table.add<SgdKernel>("sgd_update", DeviceKind::cpu, sgd_kernel);
  table.add<AdamKernel>("adam_update", DeviceKind::cpu, adam_kernel);
}

}  // namespace heddle
