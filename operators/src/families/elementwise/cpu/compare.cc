#include <functional>

#include "core/kernel_table.h"
#include "cpu/loops/map.h"
#include "families/elementwise/kernels.h"

namespace heddle::cpu_kernels {

namespace {

// The kernel of an operator that yields bools and depends on the sign of integers.
template <class F>
void order_kernel(const KernelContext&, const Operand& a, const Operand& b, const NDArray& y) {
  const DType dtype = (a.is_array ? a : b).array.dtype();
  if (is_half(dtype)) return map_half_binary<bool>(a, b, y, F{});
  visit_number(dtype, [&]<class T> { map_binary<T, bool>(a, b, y, F{}); });
}

// Whether two floats are equal, or both NaN.
struct Same {
  template <class T> bool operator()(T a, T b) const { return int{a == b} | (int{a != a} & int{b != b}); }
};

}  // namespace

HEDDLE_CPU_KERNELS(compare) {
  table.add<BinaryKernel>("equal", DeviceKind::cpu, boolean_word_kernel<std::equal_to<>>);
  table.add<BinaryKernel>("not_equal", DeviceKind::cpu, boolean_word_kernel<std::not_equal_to<>>);
  table.add<BinaryKernel>("same", DeviceKind::cpu, order_kernel<Same>);
  table.add<BinaryKernel>("less", DeviceKind::cpu, order_kernel<std::less<>>);
  table.add<BinaryKernel>("less_equal", DeviceKind::cpu, order_kernel<std::less_equal<>>);
}

}  // namespace heddle::cpu_kernels
