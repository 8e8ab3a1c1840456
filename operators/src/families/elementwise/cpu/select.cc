#include <algorithm>

#include "core/kernel_table.h"
#include "cpu/bits.h"
#include "cpu/loops/map.h"
#include "cpu/loops/strided_loop.h"
#include "families/elementwise/bound_kernels.h"
#include "families/elementwise/kernels.h"
#include "families/elementwise/select_functors.h"

namespace heddle::cpu_kernels {

namespace {

template <class T> struct ClipTo {
  T least, most;
  T operator()(T value) const { return functors::Clip{}(value, least, most); }
};

void clip_kernel(const KernelContext&, const NDArray& x, Scalar low, Scalar high, const NDArray& y) {
  const DType dtype = y.dtype();
  if (is_half(dtype)) {
    return map_half_unary<float>(x, y, ClipTo<float>{half_bound(low, dtype), half_bound(high, dtype)});
  }
  visit_number(dtype, [&]<class T> {
    map_unary<T, T>(x, y, ClipTo<T>{bound_as<T>(low), bound_as<T>(high)});
  });
}

template <class Bits>
void where_run(const bool* condition, std::int64_t condition_step, const Bits* a, std::int64_t a_step,
               const Bits* b, std::int64_t b_step, Bits* y, std::int64_t y_step, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    y[i * y_step] = condition[i * condition_step] ? a[i * a_step] : b[i * b_step];
  }
}

template <class Bits> struct Choice {
  Choice(const Operand& operand, const NDArray& y)
      : value(operand.is_array ? Bits{} : bits_of<Bits>(operand.scalar, y.dtype())),
        data(operand.is_array ? operand.array.data<const std::byte>() : nullptr),
        strides(operand.is_array ? operand.array.strides() : Strides::filled(y.ndim(), 0)) {}

  const Bits* at(std::int64_t offset) const {
    return data ? reinterpret_cast<const Bits*>(data) + offset : &value;
  }

  Bits value;
  const std::byte* data;
  Strides strides;
};

void where_kernel(const KernelContext&, const NDArray& condition, const Operand& a, const Operand& b,
                  const NDArray& y) {
  visit_bits(y.dtype(), [&]<class Bits> {
    const Choice<Bits> left(a, y), right(b, y);
    const StridedLoop<4> loop(y.shape(), {condition.strides(), left.strides, right.strides, y.strides()});
    const auto steps = loop.inner_steps();
    const bool* mask = condition.data<const bool>();
    auto* to = reinterpret_cast<Bits*>(y.data<std::byte>());
    loop.run([&](const auto& at, std::int64_t n) {
      where_run(mask + at[0], steps[0], left.at(at[1]), steps[1], right.at(at[2]), steps[2], to + at[3],
                steps[3], n);
    });
  });
}

template <class Bits>
void copy_part(const Bits* x, std::int64_t step, Bits* y, std::int64_t begin, std::int64_t end) {
  if (step == 1) {
    std::copy(x + begin, x + end, y + begin);
  } else {
    for (std::int64_t i = begin; i < end; ++i) y[i] = x[i * step];
  }
}

void triangle_kernel(const KernelContext&, const NDArray& x, const NDArray& y, std::int64_t k, bool lower) {
  if (y.size() == 0) return;
  const int last = y.ndim() - 1;
  const std::int64_t rows = y.shape()[last - 1], columns = y.shape()[last], step = x.strides()[last];
  Shape lines;
  Strides from_strides, to_strides;
  for (int axis = 0; axis < last; ++axis) {
    lines.push_back(y.shape()[axis]);
    from_strides.push_back(x.strides()[axis]);
    to_strides.push_back(y.strides()[axis]);
  }
  const StridedLoop<2> loop(lines, {from_strides, to_strides});
  const auto steps = loop.inner_steps();
  visit_bits(y.dtype(), [&]<class Bits> {
    const auto* x_data = reinterpret_cast<const Bits*>(x.data<const std::byte>());
    auto* y_data = reinterpret_cast<Bits*>(y.data<std::byte>());
    const auto body = [&](const auto& at, std::int64_t n) {
      for (std::int64_t line = 0; line < n; ++line) {
        const Bits* from = x_data + at[0] + line * steps[0];
        const std::int64_t to_offset = at[1] + line * steps[1], row = to_offset / columns % rows;
        const std::int64_t border = std::clamp(row + k + (lower ? 1 : 0), std::int64_t{0}, columns);
        Bits* to = y_data + to_offset;
        copy_part(from, step, to, lower ? 0 : border, lower ? border : columns);
        std::fill(to + (lower ? border : 0), to + (lower ? columns : border), Bits{});
      }
    };
    loop.run(body, std::max<std::int64_t>(1, kElementGrain / columns));
  });
}

}  // namespace

HEDDLE_CPU_KERNELS(select) {
  table.add<ClipKernel>("clip", DeviceKind::cpu, clip_kernel);
  table.add<TriangleKernel>("triangle", DeviceKind::cpu, triangle_kernel);
  table.add<WhereKernel>("where", DeviceKind::cpu, where_kernel);
}

}  // namespace heddle::cpu_kernels
