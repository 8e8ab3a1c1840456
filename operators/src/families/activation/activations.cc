// The activations of heddle/activations.h: what becomes of its rows.
#include <vector>

#include <heddle/activations.h>
#include <heddle/creation.h>
#include <heddle/elementwise_math.h>
#include <heddle/shape_ops.h>

#include "autograd/record.h"
#include "core/operator.h"
#include "families/activation/cpu/fast_math.h"
#include "families/elementwise/rows.h"

namespace heddle::cpu_kernels {
namespace {

using namespace functors;

HEDDLE_ACTIVATIONS(HEDDLE_ACTIVATION_OBJECTS)
HEDDLE_ACTIVATIONS_WITH_NUMBER(HEDDLE_ACTIVATION_OBJECTS_WITH_NUMBER)

}  // namespace
}  // namespace heddle::cpu_kernels

namespace heddle {

using namespace operators_detail;

namespace {

NDArray zero(const NDArray& x) { return zeros_like(x); }
NDArray normal_cdf(const NDArray& x) { return erfc(x * -0.70710678118654752) * 0.5; }

// Kernels of an activation with a number, and its derivative composed of operators.
struct WithNumber {
  explicit WithNumber(const char* op, const char* derivative_op, NDArray (*of)(const NDArray&, double))
      : value(op), derivative(derivative_op), composed(of) {}
  Kernel<BinaryKernel> value, derivative;
  NDArray (*composed)(const NDArray& x, double number);
};

NDArray with_number(const WithNumber& activation, const NDArray& x, double number) {
  const char* const op = activation.value.op();
  check_arrays(op, {&x});
  // A number is not rounded to a half.
  if (is_half(x.dtype())) return cast(with_number(activation, wide(x), number), x.dtype());
  const DType dtype = unary_dtype(op, Family::floating, x.dtype());
  NDArray y = push_binary(activation.value, x, number, {dtype, dtype});
  if (!recording({&x})) return y;
  const NDArray kept = save_for_backward(x);
  record_op(op, y, {x}, {kept}, [kept, number, &activation](const NDArray& g) {
    const NDArray last = wide(kept);  // halves are not rounded between the steps
    const NDArray slope = differentiating_gradient() ? cast(activation.composed(last, number), last.dtype())
                                                     : push_binary(activation.derivative, last, number,
                                                                   {last.dtype(), last.dtype()});
    return std::vector{cast(wide(g) * slope, g.dtype())};
  });
  return y;
}

}  // namespace

#define HEDDLE_ACTIVATION_FUNCTION(name, layer, formula, derivative, numpy, text)                            \
  HEDDLE_UNARY_FUNCTION(name, floating, ,                                                                    \
                        HEDDLE_GRADIENT(x, g* cast(derivative, g.dtype()), #name "_gradient"), numpy, -4, 4, \
                        text)
#define HEDDLE_ACTIVATION_FUNCTION_WITH_NUMBER(name, layer, parameter, otherwise, formula, derivative, \
                                               numpy, text)                                            \
  static NDArray derivative_of_##name(const NDArray& x, [[maybe_unused]] double parameter) {           \
    return derivative;                                                                                 \
  }                                                                                                    \
  NDArray name(const NDArray& x, double parameter, Where where) {                                      \
    const CallSite site(where);                                                                        \
    static const WithNumber activation(#name, #name "_derivative", derivative_of_##name);              \
    return with_number(activation, x, parameter);                                                      \
  }

HEDDLE_ACTIVATIONS(HEDDLE_ACTIVATION_FUNCTION)
HEDDLE_ACTIVATIONS_WITH_NUMBER(HEDDLE_ACTIVATION_FUNCTION_WITH_NUMBER)

#define HEDDLE_ACTIVATION_ENTRY(name, layer, formula, derivative, numpy, text) \
  HEDDLE_UNARY_ENTRY(name, floating, , , numpy, -4, 4, text)
#define HEDDLE_ACTIVATION_ENTRY_WITH_NUMBER(name, layer, parameter, otherwise, formula, derivative, numpy, \
                                            text)                                                          \
  table.add(#name, name,                                                                                   \
            {text,                                                                                         \
             {{"x"}, {#parameter, otherwise}},                                                             \
             unary_result(Family::floating),                                                               \
             kDifferentiable,                                                                              \
             numpy,                                                                                        \
             {-4, 4}});

HEDDLE_OPERATORS(activation) {
  table.family("Activations");
  HEDDLE_ACTIVATIONS(HEDDLE_ACTIVATION_ENTRY)
  HEDDLE_ACTIVATIONS_WITH_NUMBER(HEDDLE_ACTIVATION_ENTRY_WITH_NUMBER)
}

namespace cpu_kernels {

#define HEDDLE_ACTIVATION_KERNELS(name, ...)                                                  \
  table.add<UnaryKernel>(#name, DeviceKind::cpu, unary_block_kernel<Value_##name<FastMath>>); \
  table.add<BinaryKernel>(#name "_gradient", DeviceKind::cpu, binary_block_kernel<Gradient_##name<FastMath>>);
#define HEDDLE_ACTIVATION_KERNELS_WITH_NUMBER(name, ...)                                        \
  table.add<BinaryKernel>(#name, DeviceKind::cpu, binary_block_kernel<Value_##name<FastMath>>); \
  table.add<BinaryKernel>(#name "_derivative", DeviceKind::cpu,                                 \
                          binary_block_kernel<Derivative_##name<FastMath>>);

HEDDLE_CPU_KERNELS(activation) {
  HEDDLE_ACTIVATIONS(HEDDLE_ACTIVATION_KERNELS)
  HEDDLE_ACTIVATIONS_WITH_NUMBER(HEDDLE_ACTIVATION_KERNELS_WITH_NUMBER)
}

}  // namespace cpu_kernels
}  // namespace heddle
