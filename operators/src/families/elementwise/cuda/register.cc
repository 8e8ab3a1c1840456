// Registers the elementwise kernels for GPUs.
#include <cstring>

#include <heddle/array_error.h>

#include "cuda/data_fault.h"
#include "families/elementwise/bound_kernels.h"
#include "families/elementwise/cuda/entry_kernels.h"

namespace heddle::cuda_kernels {
namespace {

void where_kernel(const KernelContext& context, const NDArray& condition, const Operand& a, const Operand& b,
                  const NDArray& y) {
  if (y.size() == 0) return;
  Elements elements = elements_of(y, y.dtype());
  elements.in[0] = array_source(condition);
  elements.in[1] = source_of(a, y.dtype());
  elements.in[2] = source_of(b, y.dtype());
  check_launch(context, launch_where(context.stream().native(), elements));
}

// A bound as the number of a source, which is a float for f16 and bf16.
Source bound_source(Scalar bound, DType dtype) {
  Source source{};
  if (is_half(dtype)) {
    const float value = half_bound(bound, dtype);
    std::memcpy(source.number, &value, sizeof value);
    return source;
  }
  visit_dtype(dtype, [&]<class T>() {
    if constexpr (std::is_arithmetic_v<T>) {
      const T value = bound_as<T>(bound);
      std::memcpy(source.number, &value, sizeof value);
    }
  });
  return source;
}

void clip_kernel(const KernelContext& context, const NDArray& x, Scalar low, Scalar high, const NDArray& y) {
  if (y.size() == 0) return;
  Elements elements = elements_of(y, y.dtype());
  elements.in[0] = array_source(x);
  elements.in[1] = bound_source(low, y.dtype());
  elements.in[2] = bound_source(high, y.dtype());
  check_launch(context, launch_clip(context.stream().native(), elements));
}

void triangle_kernel(const KernelContext& context, const NDArray& x, const NDArray& y, std::int64_t k,
                     bool lower) {
  if (y.size() == 0) return;
  Elements elements = elements_of(y, y.dtype());
  elements.in[0] = array_source(x);
  const int last = y.ndim() - 1;
  check_launch(context, launch_triangle(context.stream().native(), elements, y.shape()[last - 1],
                                        y.shape()[last], k, !lower));
}

// The number of `power` in kBinaryMath.
constexpr int kPower = 0;

// All exponents are looked at; the op fails once the powers are written.
void power_kernel(const KernelContext& context, const Operand& a, const Operand& b, const NDArray& y) {
  if (y.size() > 0 && b.is_array && is_signed_integer(b.array.dtype())) {
    const DataFault fault(context);
    Elements elements = elements_of(y, b.array.dtype());
    elements.in[0] = array_source(b.array);
    check_launch(context, launch_exponent_check(context.stream().native(), elements, fault.slot()));
    fault.check(context, [](const FaultSlot&) {
      throw InvalidArgument("power: an integer to a negative integer power");
    });
  }
  binary_entry<kBinaryMath, kPower>(context, a, b, y);
}

}  // namespace
}  // namespace heddle::cuda_kernels

namespace heddle {

HEDDLE_CUDA_KERNELS(elementwise) {
  using namespace cuda_kernels;
  add_unary<kUnary>(table);
  add_unary<kRounding>(table);
  add_unary<kUnaryMath>(table);
  add_binary<kBinary>(table);
  table.add<BinaryKernel>("power", DeviceKind::cuda, power_kernel);
  add_binary<kBinaryMath, kPower + 1>(table);
  table.add<ClipKernel>("clip", DeviceKind::cuda, clip_kernel);
  table.add<TriangleKernel>("triangle", DeviceKind::cuda, triangle_kernel);
  table.add<WhereKernel>("where", DeviceKind::cuda, where_kernel);
}

}  // namespace heddle
