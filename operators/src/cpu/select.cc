#include <limits>
#include <type_traits>

#include "../elementwise_kernels.h"
#include "map.h"
#include "register.h"

namespace heddle::cpu_kernels {

namespace {

// A bound as T; one beyond T's range does not bind, so its nearest value does as well.
template <class T> T bound_as(Scalar bound) {
  if constexpr (std::is_floating_point_v<T>) {
    return bound.as<T>();
  } else {
    using Limits = std::numeric_limits<T>;
    const auto wide = bound.as<std::int64_t>();
    if (wide < static_cast<std::int64_t>(Limits::min())) return Limits::min();
    return wide > static_cast<std::int64_t>(Limits::max()) ? Limits::max() : static_cast<T>(wide);
  }
}

void clip_kernel(const NDArray& x, Scalar low, Scalar high, const NDArray& y) {
  visit_dtype(y.dtype(), [&]<class T> {
    const T least = bound_as<T>(low), most = bound_as<T>(high);
    map_unary<T, T>(x, y, [=](T value) { return value < least ? least : value > most ? most : value; });
  });
}

template <class T>
void where_run(const bool* condition, std::int64_t condition_step, const T* a, std::int64_t a_step,
               const T* b, std::int64_t b_step, T* y, std::int64_t y_step, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    y[i * y_step] = condition[i * condition_step] ? a[i * a_step] : b[i * b_step];
  }
}

void where_kernel(const NDArray& condition, const Operand& a, const Operand& b, const NDArray& y) {
  visit_dtype(y.dtype(), [&]<class T> {
    const Source<T> left(a, y.shape()), right(b, y.shape());
    const StridedLoop<4> loop(y.shape(), {condition.strides(), left.strides, right.strides, y.strides()});
    const auto steps = loop.inner_steps();
    const bool* mask = condition.data<const bool>();
    T* to = y.data<T>();
    loop.run([&](const auto& at, std::int64_t n) {
      where_run(mask + at[0], steps[0], left.at(at[1]), steps[1], right.at(at[2]), steps[2], to + at[3],
                steps[3], n);
    });
  });
}

}  // namespace

void register_select(KernelTable& table) {
  table.add<ClipKernel>("clip", DeviceKind::cpu, clip_kernel);
  table.add<WhereKernel>("where", DeviceKind::cpu, where_kernel);
}

}  // namespace heddle::cpu_kernels
