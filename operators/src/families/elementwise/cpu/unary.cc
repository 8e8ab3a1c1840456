#include <cmath>
#include <type_traits>

#include "core/kernel_table.h"
#include "cpu/loops/map.h"
#include "cpu/vector_math.h"
#include "families/elementwise/kernels.h"

namespace heddle::cpu_kernels {

namespace {

struct Negative {
  template <class T> T operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>)
      return -x;
    else
      return static_cast<T>(0 - static_cast<Wrapping<T>>(x));
  }
};

struct Abs {
  template <class T> T operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>)
      return std::fabs(x);
    else if constexpr (std::is_signed_v<T>)
      return x < 0 ? Negative{}(x) : x;
    else
      return x;
  }
};

struct Square {
  template <class T> T operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>)
      return x * x;
    else
      return static_cast<T>(static_cast<Wrapping<T>>(x) * static_cast<Wrapping<T>>(x));
  }
};

struct Relu {
  template <class T> T operator()(T x) const {
    return x < T{0} ? T{0} : x;  // NaN stays NaN
  }
};

struct Exp {
  template <class T> T operator()(T x) const { return fast_exp(x); }
};
struct Log {
  static constexpr bool kInBlocks = true;
  template <class T> T operator()(T x) const { return fast_log(x); }
};
struct Sqrt {
  template <class T> T operator()(T x) const { return std::sqrt(x); }
};
struct Tanh {
  template <class T> T operator()(T x) const { return fast_tanh(x); }
};
struct Sigmoid {
  template <class T> T operator()(T x) const { return fast_sigmoid(x); }
};

void logical_not_kernel(const KernelContext&, const NDArray& x, const NDArray& y) {
  const auto is_zero = []<class T>(T value) { return value == T{0}; };
  if (is_half(x.dtype())) return map_half_unary<bool>(x, y, is_zero);
  visit_word(x.dtype(), [&]<class T> { map_unary<T, bool>(x, y, is_zero); });
}

}  // namespace

HEDDLE_CPU_KERNELS(unary) {
  table.add<UnaryKernel>("negative", DeviceKind::cpu, unary_word_kernel<Negative>);
  table.add<UnaryKernel>("abs", DeviceKind::cpu, unary_kernel<Abs>);
  table.add<UnaryKernel>("square", DeviceKind::cpu, unary_word_kernel<Square>);
  table.add<UnaryKernel>("relu", DeviceKind::cpu, unary_kernel<Relu>);
  table.add<UnaryKernel>("exp", DeviceKind::cpu, unary_floating_kernel<Exp>);
  table.add<UnaryKernel>("log", DeviceKind::cpu, unary_floating_kernel<Log>);
  table.add<UnaryKernel>("sqrt", DeviceKind::cpu, unary_floating_kernel<Sqrt>);
  table.add<UnaryKernel>("tanh", DeviceKind::cpu, unary_floating_kernel<Tanh>);
  table.add<UnaryKernel>("sigmoid", DeviceKind::cpu, unary_floating_kernel<Sigmoid>);
  table.add<UnaryKernel>("logical_not", DeviceKind::cpu, logical_not_kernel);
}

}  // namespace heddle::cpu_kernels
