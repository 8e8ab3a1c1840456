// Signs, squares, exponentials and activations: a row for each operator.
#include <cmath>
#include <type_traits>

#include <heddle/elementwise_math.h>

#include "cpu/loops/map.h"
#include "cpu/vector_math.h"
#include "families/elementwise/rows.h"
#include "families/elementwise/unary_functors.h"

namespace heddle::cpu_kernels {

namespace {

using namespace functors;

struct Exp {
  template <class T> T operator()(T x) const { return fast_exp(x); }
};
struct Log {
  static constexpr bool kInBlocks = true;
  template <class T> T operator()(T x) const { return fast_log(x); }
};
struct Tanh {
  template <class T> T operator()(T x) const { return fast_tanh(x); }
};
struct Sigmoid {
  template <class T> T operator()(T x) const { return fast_sigmoid(x); }
};

}  // namespace
}  // namespace heddle::cpu_kernels

namespace heddle {

using namespace operators_detail;

// The gradients of abs and relu at 0 are 0 also for an infinite or undetermined g, as the kernels give.
// clang-format off
#define HEDDLE_UNARY(X) \
  X(negative, no_bool, unary_word_kernel<Negative>, HEDDLE_GRADIENT(nothing, -g), \
    "-x", -4, 4, "-x.") \
  X(abs, arithmetic, unary_kernel<Abs>, HEDDLE_GRADIENT(x, where(x == 0, 0, g * sign(x)), "abs_gradient"), \
    "np.abs(x)", -4, 4, "The absolute value.") \
  X(square, no_bool, unary_word_kernel<Square>, HEDDLE_GRADIENT(x, g * x * 2, "square_gradient"), \
    "np.square(x)", -4, 4, "x * x.") \
  X(relu, no_bool, unary_kernel<Relu>, HEDDLE_GRADIENT(y, where(y <= 0, 0, g), "relu_gradient"), \
    "np.maximum(x, 0)", -4, 4, "max(x, 0); NaN of NaN.") \
  X(exp, floating, unary_floating_kernel<Exp>, HEDDLE_GRADIENT(y, g * y, "multiply"), \
    "np.exp(x)", -4, 4, "e to the power of x.") \
  X(log, floating, unary_floating_kernel<Log>, HEDDLE_GRADIENT(x, g / x, "divide"), \
    "np.log(x)", 0.01, 9, "The natural logarithm.") \
  X(sqrt, floating, unary_floating_kernel<Sqrt>, HEDDLE_GRADIENT(y, g / (y * 2), "sqrt_gradient"), \
    "np.sqrt(x)", 0.01, 9, "The square root.") \
  X(tanh, floating, unary_floating_kernel<Tanh>, HEDDLE_GRADIENT(y, g * (1 - square(y)), "tanh_gradient"), \
    "np.tanh(x)", -4, 4, "The hyperbolic tangent.") \
  X(sigmoid, floating, unary_floating_kernel<Sigmoid>, HEDDLE_GRADIENT(y, g * y * (1 - y), "sigmoid_gradient"), \
    "1 / (1 + np.exp(-x))", -4, 4, "1 / (1 + exp(-x)).")
// clang-format on

HEDDLE_UNARY(HEDDLE_UNARY_FUNCTION)

HEDDLE_OPERATORS(unary) {
  table.family("Elementwise");
  HEDDLE_UNARY(HEDDLE_UNARY_ENTRY)
}

namespace cpu_kernels {

HEDDLE_CPU_KERNELS(unary) {
  HEDDLE_UNARY(HEDDLE_UNARY_KERNEL)
  table.add<BinaryKernel>("abs_gradient", DeviceKind::cpu, binary_floating_kernel<AbsGradient>);
  table.add<BinaryKernel>("square_gradient", DeviceKind::cpu, binary_floating_kernel<SquareGradient>);
  table.add<BinaryKernel>("relu_gradient", DeviceKind::cpu, binary_floating_kernel<ReluGradient>);
  table.add<BinaryKernel>("sqrt_gradient", DeviceKind::cpu, binary_floating_kernel<SqrtGradient>);
  table.add<BinaryKernel>("tanh_gradient", DeviceKind::cpu, binary_floating_kernel<TanhGradient>);
  table.add<BinaryKernel>("sigmoid_gradient", DeviceKind::cpu, binary_floating_kernel<SigmoidGradient>);
}

}  // namespace cpu_kernels
}  // namespace heddle
