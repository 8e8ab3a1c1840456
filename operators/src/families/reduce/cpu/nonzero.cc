// Reductions that depend only on whether elements are 0.
#include <cstddef>
#include <cstdint>

#include "core/kernel_table.h"
#include "families/reduce/cpu/loops.h"
#include "families/reduce/kernels.h"

namespace heddle::cpu_kernels {

namespace {

// The bits of f16 and of bf16: 0 and -0 are 0.
struct HalfBits {
  std::uint16_t bits;
};

template <class T> bool is_zero(T x) { return x == 0; }
bool is_zero(HalfBits x) { return (x.bits & 0x7fff) == 0; }

struct Any {
  template <class T> using Partial = std::uint8_t;
  template <class T> static std::uint8_t start() { return 0; }
  template <class P, class T> static P take(T x) { return !is_zero(x); }
  template <class P> static P join(P a, P b) { return a | b; }
  template <class R> static R finish(std::uint8_t found, std::int64_t) { return found != 0; }
};

struct All : Any {
  template <class P, class T> static P take(T x) { return is_zero(x); }
  template <class R> static R finish(std::uint8_t found, std::int64_t) { return found == 0; }
};

struct Count : Any {
  template <class T> using Partial = std::int64_t;
  template <class T> static std::int64_t start() { return 0; }
  template <class P> static P join(P a, P b) { return a + b; }
  template <class R> static R finish(std::int64_t count, std::int64_t) { return count; }
};

// Integers use the unsigned type of their size: whether one is 0 does not depend on its sign.
template <class F, class R>
void kernel(const KernelContext&, const NDArray& x, const NDArray& y, const Dims& axes) {
  const auto as = [&]<class T>() { reduce(x, y, axes, reduction::Loops<F, T, R>::kAll); };
  const std::size_t size = size_of(x.dtype());
  if (x.dtype() == DType::f32) return as.template operator()<float>();
  if (x.dtype() == DType::f64) return as.template operator()<double>();
  if (is_half(x.dtype())) return as.template operator()<HalfBits>();
  if (size == 1) return as.template operator()<std::uint8_t>();
  if (size == 2) return as.template operator()<std::uint16_t>();
  if (size == 4) return as.template operator()<std::uint32_t>();
  as.template operator()<std::uint64_t>();
}

}  // namespace

HEDDLE_CPU_KERNELS(reduce_nonzero) {
  table.add<ReduceKernel>("any", DeviceKind::cpu, kernel<Any, bool>);
  table.add<ReduceKernel>("all", DeviceKind::cpu, kernel<All, bool>);
  table.add<ReduceKernel>("count_nonzero", DeviceKind::cpu, kernel<Count, std::int64_t>);
}

}  // namespace heddle::cpu_kernels
