#include <functional>

#include "cpu/map.h"
#include "cpu/register.h"
#include "kernels/elementwise_kernels.h"

namespace heddle::cpu_kernels {

namespace {

// y is bool, so the element type is that of whichever operand is an array.
template <template <class> class Comparison>
void equality_kernel(const Operand& a, const Operand& b, const NDArray& y) {
  const DType dtype = (a.is_array ? a : b).array.dtype();
  if (is_half(dtype)) return map_half_binary<bool>(a, b, y, Comparison<float>{});
  visit_word(dtype, [&]<class T> { map_binary<T, bool>(a, b, y, Comparison<T>{}); });
}
template <template <class> class Comparison>
void compare_kernel(const Operand& a, const Operand& b, const NDArray& y) {
  const DType dtype = (a.is_array ? a : b).array.dtype();
  if (is_half(dtype)) return map_half_binary<bool>(a, b, y, Comparison<float>{});
  visit_number(dtype, [&]<class T> { map_binary<T, bool>(a, b, y, Comparison<T>{}); });
}

}  // namespace

void register_compare(KernelTable& table) {
  table.add<BinaryKernel>("equal", DeviceKind::cpu, equality_kernel<std::equal_to>);
  table.add<BinaryKernel>("not_equal", DeviceKind::cpu, equality_kernel<std::not_equal_to>);
  table.add<BinaryKernel>("less", DeviceKind::cpu, compare_kernel<std::less>);
  table.add<BinaryKernel>("less_equal", DeviceKind::cpu, compare_kernel<std::less_equal>);
}

}  // namespace heddle::cpu_kernels
