#include <algorithm>

#include "../reduce_kernels.h"
#include "reduce_plan.h"
#include "register.h"
#include "strided_loop.h"

namespace heddle::cpu_kernels {

namespace {

// Whether x takes the place of `best`: ties keep the first, the first NaN stays.
struct Larger {
  template <class T> bool operator()(T x, T best) const { return x > best || (x != x && best == best); }
};
struct Smaller {
  template <class T> bool operator()(T x, T best) const { return x < best || (x != x && best == best); }
};

template <class F, class T> std::int64_t best_index(const T* x, std::int64_t step, std::int64_t n) {
  T best = x[0];
  std::int64_t at = 0;
  for (std::int64_t i = 1; i < n; ++i) {
    const T value = x[i * step];
    if (F{}(value, best)) best = value, at = i;
  }
  return at;
}

template <class F> void arg_kernel(const NDArray& x, const NDArray& y, int axis) {
  const ReducePlan plan(x, y, {axis});
  const std::int64_t n = x.shape()[axis], step = x.strides()[axis];
  visit_dtype(x.dtype(), [&]<class T> {
    const T* from = x.data<T>();
    auto* to = y.data<std::int64_t>();
    parallel_chunks(y.size(), std::max<std::int64_t>(1, kElementGrain / n),
                    [&](std::int64_t begin, std::int64_t end) {
                      for (std::int64_t result = begin; result < end; ++result) {
                        const auto [source, target] = plan.kept.offsets(result);
                        to[target] = best_index<F>(from + source, step, n);
                      }
                    });
  });
}

}  // namespace

void register_argreduce(KernelTable& table) {
  table.add<ArgReduceKernel>("argmax", DeviceKind::cpu, arg_kernel<Larger>);
  table.add<ArgReduceKernel>("argmin", DeviceKind::cpu, arg_kernel<Smaller>);
}

}  // namespace heddle::cpu_kernels
