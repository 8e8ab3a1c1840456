// Registers kernels of tables of entries (cuda/kernels.h of elementwise operators). For files of the families' folders cuda.
#pragma once

#include <cstring>
#include <iterator>

#include "core/kernel_table.h"
#include "cuda/arrays.h"
#include "families/elementwise/cuda/kernels.h"
#include "families/elementwise/kernels.h"

namespace heddle::cuda_kernels {

inline Source array_source(const NDArray& array) {
  Source source{address(array, check::AccessKind::read), {}, {}};
  for (int axis = 0; axis < array.ndim(); ++axis) source.strides[axis] = array.strides()[axis];
  return source;
}

inline Source source_of(const Operand& operand, DType dtype) {
  if (operand.is_array) return array_source(operand.array);
  Source source{};
  visit_dtype(dtype, [&]<class T>() {
    const T value = operand.scalar.as<T>();
    std::memcpy(source.number, &value, sizeof value);
  });
  return source;
}

// The source of an operand that is computed with: source_of(), but a number of f16 or bf16 is rounded to that dtype and given as
// a float.
inline Source computed_source(const Operand& operand, DType dtype) {
  Source source = source_of(operand, dtype);
  if (operand.is_array || !is_half(dtype)) return source;
  const float value = dtype == DType::f16 ? static_cast<float>(operand.scalar.as<Float16>())
                                          : static_cast<float>(operand.scalar.as<BFloat16>());
  std::memcpy(source.number, &value, sizeof value);
  return source;
}

inline Elements elements_of(const NDArray& y, DType operands) {
  Elements elements{};
  elements.dims = y.ndim();
  elements.out = address(y, check::AccessKind::write);
  elements.dtype = static_cast<unsigned char>(operands);
  elements.result = static_cast<unsigned char>(y.dtype());
  for (int axis = 0; axis < y.ndim(); ++axis) {
    elements.sizes[axis] = y.shape()[axis];
    elements.out_strides[axis] = y.strides()[axis];
  }
  return elements;
}

// Kernels have no closure in the table: one function an entry, made from the entry's number.
template <const auto& entries, int entry>
void unary_entry(const KernelContext& context, const NDArray& x, const NDArray& y) {
  if (y.size() == 0) return;
  Elements elements = elements_of(y, x.dtype());
  elements.in[0] = array_source(x);
  check_launch(context, entries[entry].launch(context.stream().native(), elements));
}

template <const auto& entries, int entry>
void binary_entry(const KernelContext& context, const Operand& a, const Operand& b, const NDArray& y) {
  if (y.size() == 0) return;
  const DType dtype = (a.is_array ? a : b).array.dtype();
  Elements elements = elements_of(y, dtype);
  elements.in[0] = computed_source(a, dtype);
  elements.in[1] = computed_source(b, dtype);
  check_launch(context, entries[entry].launch(context.stream().native(), elements));
}

template <const auto& entries, int entry = 0> void add_unary(KernelTable& table) {
  if constexpr (entry < static_cast<int>(std::size(entries))) {
    table.add<UnaryKernel>(entries[entry].op, DeviceKind::cuda, unary_entry<entries, entry>);
    add_unary<entries, entry + 1>(table);
  }
}
template <const auto& entries, int entry = 0> void add_binary(KernelTable& table) {
  if constexpr (entry < static_cast<int>(std::size(entries))) {
    table.add<BinaryKernel>(entries[entry].op, DeviceKind::cuda, binary_entry<entries, entry>);
    add_binary<entries, entry + 1>(table);
  }
}

}  // namespace heddle::cuda_kernels
