// Comparisons and logical operators, whose results are bools. Each is a row of a macro (rows.h).
#include <functional>
#include <type_traits>

#include <heddle/elementwise_math.h>

#include "cpu/loops/map.h"
#include "families/elementwise/comparison_functors.h"
#include "families/elementwise/rows.h"

namespace heddle::cpu_kernels {

namespace {

using namespace functors;

// The kernel of an operator that yields bools and depends on the sign of integers.
template <class F>
void order_kernel(const KernelContext&, const Operand& a, const Operand& b, const NDArray& y) {
  const DType dtype = (a.is_array ? a : b).array.dtype();
  if (is_half(dtype)) return map_half_binary<bool>(a, b, y, F{});
  visit_number(dtype, [&]<class T> { map_binary<T, bool>(a, b, y, F{}); });
}

void logical_not_kernel(const KernelContext&, const NDArray& x, const NDArray& y) {
  const auto is_zero = []<class T>(T value) { return value == T{0}; };
  if (is_half(x.dtype())) return map_half_unary<bool>(x, y, is_zero);
  visit_word(x.dtype(), [&]<class T> { map_unary<T, bool>(x, y, is_zero); });
}

}  // namespace
}  // namespace heddle::cpu_kernels

namespace heddle {

using namespace operators_detail;

namespace {

// greater(a, b) computes less(b, a). The checks are made before, so that errors name greater() and the
// operands in their order.
NDArray compare_swapped(const char* op, const Kernel<BinaryKernel>& kernel, const Operand& a,
                        const Operand& b) {
  binary_dtypes(op, Family::comparison, comparable(a, b), comparable(b, a));
  binary_shape(op, a, b);
  return compare(kernel, b, a);
}

}  // namespace

#define HEDDLE_BY_VALUE " Integers are compared by their values."

// clang-format off
#define HEDDLE_COMPARISONS(X) \
  X(equal, a, b, comparison, boolean_word_kernel<std::equal_to<>>, HEDDLE_NO_GRADIENT, \
    "a == b", -4, 4, "a == b." HEDDLE_BY_VALUE) \
  X(not_equal, a, b, comparison, boolean_word_kernel<std::not_equal_to<>>, HEDDLE_NO_GRADIENT, \
    "a != b", -4, 4, "a != b." HEDDLE_BY_VALUE) \
  X(less, a, b, comparison, order_kernel<std::less<>>, HEDDLE_NO_GRADIENT, \
    "a < b", -4, 4, "a < b." HEDDLE_BY_VALUE) \
  X(less_equal, a, b, comparison, order_kernel<std::less_equal<>>, HEDDLE_NO_GRADIENT, \
    "a <= b", -4, 4, "a <= b." HEDDLE_BY_VALUE)

#define HEDDLE_LOGIC(X) \
  X(logical_and, a, b, comparison, boolean_word_kernel<LogicalAnd>, HEDDLE_NO_GRADIENT, \
    "np.logical_and(a, b)", -4, 4, "Whether both are not 0.") \
  X(logical_or, a, b, comparison, boolean_word_kernel<LogicalOr>, HEDDLE_NO_GRADIENT, \
    "np.logical_or(a, b)", -4, 4, "Whether one is not 0.") \
  X(logical_xor, a, b, comparison, boolean_word_kernel<LogicalXor>, HEDDLE_NO_GRADIENT, \
    "np.logical_xor(a, b)", -4, 4, "Whether one is 0 and the other is not.")

#define HEDDLE_NEGATION(X) \
  X(logical_not, comparison, logical_not_kernel, HEDDLE_NO_GRADIENT, "np.logical_not(x)", -4, 4, "x == 0.")
// clang-format on

HEDDLE_COMPARISONS(HEDDLE_BINARY_FUNCTION)
HEDDLE_LOGIC(HEDDLE_BINARY_FUNCTION)
HEDDLE_NEGATION(HEDDLE_UNARY_FUNCTION)

NDArray greater(const Operand& a, const Operand& b, Where where) {
  const CallSite site(where);
  static const Kernel<BinaryKernel> kernel("less");
  return compare_swapped("greater", kernel, a, b);
}
NDArray greater_equal(const Operand& a, const Operand& b, Where where) {
  const CallSite site(where);
  static const Kernel<BinaryKernel> kernel("less_equal");
  return compare_swapped("greater_equal", kernel, a, b);
}

HEDDLE_OPERATORS(comparison) {
  table.family("Elementwise");
  HEDDLE_COMPARISONS(HEDDLE_BINARY_ENTRY)
  table.add("greater", greater, {"a > b." HEDDLE_BY_VALUE, {"a", "b"}, "bool", false, "a > b"});
  table.add("greater_equal", greater_equal, {"a >= b." HEDDLE_BY_VALUE, {"a", "b"}, "bool", false, "a >= b"});
  HEDDLE_NEGATION(HEDDLE_UNARY_ENTRY)
  table.family("Elementwise mathematics");
  HEDDLE_LOGIC(HEDDLE_BINARY_ENTRY)
}

namespace cpu_kernels {

HEDDLE_CPU_KERNELS(comparison) {
  HEDDLE_COMPARISONS(HEDDLE_BINARY_KERNEL)
  HEDDLE_LOGIC(HEDDLE_BINARY_KERNEL)
  HEDDLE_NEGATION(HEDDLE_UNARY_KERNEL)
  table.add<BinaryKernel>("same", DeviceKind::cpu, order_kernel<Same>);
}

}  // namespace cpu_kernels
}  // namespace heddle
