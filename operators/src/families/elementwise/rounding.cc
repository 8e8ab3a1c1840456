// Rounding, signs, classes of numbers, and the bits of one operand: a row for each operator.
#include <cstdint>
#include <type_traits>

#include <heddle/elementwise_math.h>

#include "cpu/loops/map.h"
#include "cpu/loops/strided_loop.h"
#include "families/elementwise/rounding_functors.h"
#include "families/elementwise/rows.h"

namespace heddle::cpu_kernels {

namespace {

using namespace functors;

// Integers and bools are unchanged: they are rounded already.
template <class F> void rounding_kernel(const KernelContext& context, const NDArray& x, const NDArray& y) {
  if (is_floating(y.dtype())) return unary_floating_kernel<F>(context, x, y);
  visit_word(y.dtype(), [&]<class T> {
    if constexpr (std::is_integral_v<T>) map_unary<T, T>(x, y, Unchanged{});
  });
}

// `otherwise`: the result for integers and bools.
template <class F, bool otherwise>
void class_kernel(const KernelContext&, const NDArray& x, const NDArray& y) {
  if (is_half(x.dtype())) return map_half_unary<bool>(x, y, F{});
  if (x.dtype() == DType::f64) return map_unary<double, bool>(x, y, F{});
  if (x.dtype() == DType::f32) return map_unary<float, bool>(x, y, F{});
  const StridedLoop<1> loop(y.shape(), {y.strides()});
  bool* to = y.data<bool>();
  loop.run([&, step = loop.inner_steps()[0]](const auto& at, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) to[at[0] + i * step] = otherwise;
  });
}

void sign_bit_kernel(const KernelContext&, const NDArray& x, const NDArray& y) {
  if (is_half(x.dtype())) return map_half_unary<bool>(x, y, SignBit{});
  visit_number(x.dtype(), [&]<class T> { map_unary<T, bool>(x, y, SignBit{}); });
}

void invert_kernel(const KernelContext&, const NDArray& x, const NDArray& y) {
  visit_word(y.dtype(), [&]<class T> {
    if constexpr (std::is_integral_v<T>) map_unary<T, T>(x, y, Invert{});
  });
}

}  // namespace
}  // namespace heddle::cpu_kernels

namespace heddle {

using namespace operators_detail;

// clang-format off
#define HEDDLE_ROUNDING(X) \
  X(floor, no_bool, rounding_kernel<Floor>, HEDDLE_GRADIENT(nothing, no_change(g)), \
    "np.floor(x)", -4, 4, "The largest integer not above x.") \
  X(ceil, no_bool, rounding_kernel<Ceil>, HEDDLE_GRADIENT(nothing, no_change(g)), \
    "np.ceil(x)", -4, 4, "The smallest integer not below x.") \
  X(round, no_bool, rounding_kernel<Round>, HEDDLE_GRADIENT(nothing, no_change(g)), \
    "np.rint(x)", -4, 4, "The nearest integer; of a half, the even one.") \
  X(trunc, no_bool, rounding_kernel<Trunc>, HEDDLE_GRADIENT(nothing, no_change(g)), \
    "np.trunc(x)", -4, 4, "x without its fraction.") \
  X(sign, no_bool, unary_kernel<Sign>, HEDDLE_GRADIENT(nothing, no_change(g)), \
    "np.sign(x)", -4, 4, "-1, 0 or 1; NaN of NaN.") \
  X(isnan, comparison, (class_kernel<IsNan, false>), HEDDLE_NO_GRADIENT, \
    "np.isnan(x)", -4, 4, "Whether x is NaN.") \
  X(isinf, comparison, (class_kernel<IsInf, false>), HEDDLE_NO_GRADIENT, \
    "np.isinf(x)", -4, 4, "Whether x is infinity or -infinity.") \
  X(isfinite, comparison, (class_kernel<IsFinite, true>), HEDDLE_NO_GRADIENT, \
    "np.isfinite(x)", -4, 4, "Whether x is neither NaN nor an infinity.") \
  X(signbit, comparison, sign_bit_kernel, HEDDLE_NO_GRADIENT, \
    "np.signbit(x)", -4, 4, "Whether the sign is -; that of -0.0 is.") \
  X(bitwise_invert, bits, invert_kernel, HEDDLE_NO_GRADIENT, \
    "np.invert(x)", -9, 9, "~x; of bool, not.")
// clang-format on

HEDDLE_ROUNDING(HEDDLE_UNARY_FUNCTION)

HEDDLE_OPERATORS(rounding) {
  table.family("Elementwise mathematics");
  HEDDLE_ROUNDING(HEDDLE_UNARY_ENTRY)
}

namespace cpu_kernels {

HEDDLE_CPU_KERNELS(rounding) { HEDDLE_ROUNDING(HEDDLE_UNARY_KERNEL) }

}  // namespace cpu_kernels
}  // namespace heddle
