// What becomes of the rows of elementwise operators. A file applies X to each of its rows in a macro, say HEDDLE_LOGIC(X),
// and has from it the public functions, the entries of the registry and the kernels for the CPU:
//
//   X(logical_and, a, b, comparison, boolean_word_kernel<LogicalAnd>, HEDDLE_NO_GRADIENT,
//     "np.logical_and(a, b)", -4, 4, "Whether both are not 0.")
//
//   HEDDLE_LOGIC(HEDDLE_BINARY_FUNCTION)                                    // in namespace heddle
//   HEDDLE_OPERATORS(logic) { table.family("Logic"); HEDDLE_LOGIC(HEDDLE_BINARY_ENTRY) }
//   HEDDLE_CPU_KERNELS(logic) { HEDDLE_LOGIC(HEDDLE_BINARY_KERNEL) }        // in namespace heddle::cpu_kernels
#pragma once

#include "core/kernel_table.h"
#include "core/operator_table.h"
#include "families/elementwise/elementwise_gradient.h"
#include "families/elementwise/kernels.h"

namespace heddle::operators_detail {

// The dtypes that operators of a family take.
constexpr DTypes taken_by(Family family) {
  switch (family) {
    case Family::no_bool:
    case Family::power:
      return DTypes::no_bool;
    case Family::bits:
      return DTypes::bits;
    case Family::integers:
      return DTypes::integers;
    case Family::arithmetic:
    case Family::floating:
    case Family::comparison:
      break;
  }
  return DTypes::all;
}

// The words of the registry for the dtype of the result of an operator: unary_result() for one operand,
// binary_result() for two.
constexpr const char* unary_result(Family family) {
  return family == Family::comparison ? "bool"
         : family == Family::floating ? "that of x; f64 for integers and bool"
                                      : "that of x";
}
constexpr const char* binary_result(Family family) {
  return family == Family::comparison ? "bool"
         : family == Family::floating ? "common; f64 for integers and bool"
                                      : "common";
}

}  // namespace heddle::operators_detail

// A row of an operator with one operand: its name; its Family; its kernel; its gradient; the same in NumPy, and the
// range from which tests draw x; documentation.
#define HEDDLE_UNARY_FUNCTION(name, family, kernel, gradient, numpy, low, high, text) \
  constexpr UnaryGradient gradient_of_##name = gradient;                              \
  NDArray name(const NDArray& x, Where where) {                                       \
    const CallSite site(where);                                                       \
    static const Kernel<UnaryKernel> own_kernel(#name);                               \
    return unary(own_kernel, Family::family, x, gradient_of_##name);                  \
  }
#define HEDDLE_UNARY_ENTRY(name, family, kernel, gradient, numpy, low, high, text) \
  table.add(#name, name,                                                           \
            {text,                                                                 \
             {{"x", taken_by(Family::family)}},                                    \
             unary_result(Family::family),                                         \
             gradient_of_##name.exists(),                                          \
             numpy,                                                                \
             {low, high}});
#define HEDDLE_UNARY_KERNEL(name, family, kernel, gradient, numpy, low, high, text) \
  table.add<UnaryKernel>(#name, DeviceKind::cpu, kernel);

// The gradient in a row of an operator with one operand: which array is saved (x, the result y, or nothing);
// the gradient, computed from the gradient g of the result and the saved array; and the name of a kernel that
// computes it in one op, if there is one.
#define HEDDLE_GRADIENT(saves, gradient, ...)                                                    \
  {                                                                                              \
    [](const NDArray& g, [[maybe_unused]] const NDArray& saves) -> NDArray { return gradient; }, \
        UnaryGradient::saves __VA_OPT__(, ) __VA_ARGS__                                          \
  }
// The gradient of a row, unary or binary, that has none.
#define HEDDLE_NO_GRADIENT \
  {}

// A row of an operator with two operands: its name and those of the operands; its Family; its kernel; its
// gradients; the same in NumPy, and the range from which tests draw both operands; documentation.
#define HEDDLE_BINARY_FUNCTION(name, first, second, family, kernel, gradients, numpy, low, high, text) \
  constexpr BinaryGradient gradient_of_##name = gradients;                                             \
  NDArray name(const Operand& left, const Operand& right, Where where) {                               \
    const CallSite site(where);                                                                        \
    static const Kernel<BinaryKernel> own_kernel(#name);                                               \
    return binary(own_kernel, Family::family, left, right, gradient_of_##name);                        \
  }
#define HEDDLE_BINARY_ENTRY(name, first, second, family, kernel, gradients, numpy, low, high, text) \
  table.add(#name, name,                                                                            \
            {text,                                                                                  \
             {{#first, taken_by(Family::family)}, {#second, taken_by(Family::family)}},             \
             binary_result(Family::family),                                                         \
             gradient_of_##name.exists(),                                                           \
             numpy,                                                                                 \
             {low, high}});
#define HEDDLE_BINARY_KERNEL(name, first, second, family, kernel, gradients, numpy, low, high, text) \
  table.add<BinaryKernel>(#name, DeviceKind::cpu, kernel);

// The gradients in a row of an operator with two operands. For each operand: which of a, b and the result y
// are saved, as in `ay`, or nothing; and its gradient, computed from the gradient g of the result and the
// saved arrays.
#define HEDDLE_GRADIENTS(saves_for_a, gradient_of_a, saves_for_b, gradient_of_b) \
  { HEDDLE_PARTIAL(saves_for_a, gradient_of_a), HEDDLE_PARTIAL(saves_for_b, gradient_of_b) }
#define HEDDLE_PARTIAL(saves, gradient)                   \
  {                                                       \
    [](const BinaryValues& values) -> NDArray {           \
      [[maybe_unused]] const auto& [g, a, b, y] = values; \
      return gradient;                                    \
    },                                                    \
        Partial::saves                                    \
  }
