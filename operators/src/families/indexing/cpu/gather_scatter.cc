// Kernels that gather and scatter elements along one axis.
#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "core/kernel_table.h"
#include "cpu/bits.h"
#include "cpu/checked_indices.h"
#include "cpu/loops/map.h"
#include "cpu/loops/strided_loop.h"
#include "families/indexing/scatter_kernels.h"

namespace heddle::cpu_kernels {

namespace {

// The strides of an array broadcast to `shape`.
Strides broadcast_strides(const Shape& from, const Strides& strides, const Shape& shape) {
  Strides result = strides;
  for (int d = 0; d < shape.size(); ++d)
    if (from[d] == 1 && shape[d] != 1) result[d] = 0;
  return result;
}

Dims without(const Dims& dims, int axis) {
  Dims rest;
  for (int d = 0; d < dims.size(); ++d)
    if (d != axis) rest.push_back(dims[d]);
  return rest;
}

void gather_kernel(const KernelContext&, const char* op, const NDArray& x, const NDArray& indices,
                   const NDArray& y, int axis) {
  const CheckedIndices at(op, indices, x.shape()[axis], true, y);
  at.check_all();
  if (y.size() == 0) return;
  Strides steps = broadcast_strides(x.shape(), x.strides(), y.shape());
  const std::int64_t along = x.strides()[axis];
  steps[axis] = 0;
  const Strides places = broadcast_strides(indices.shape(), contiguous_strides(indices.shape()), y.shape());
  const StridedLoop<3> loop(y.shape(), {steps, places, y.strides()});
  const auto step = loop.inner_steps();
  visit_bits(x.dtype(), [&]<class Bits> {
    const auto* from = reinterpret_cast<const Bits*>(x.data<const std::byte>());
    auto* to = reinterpret_cast<Bits*>(y.data<std::byte>());
    const bool neighbours = step[0] == 0 && step[1] == 1 && step[2] == 1 && along == 1;
    loop.run([&](const auto& offset, std::int64_t n) {
      const Bits* line = from + offset[0];
      Bits* result = to + offset[2];
      if (neighbours) {
        for (std::int64_t i = 0; i < n; ++i) result[i] = line[at[offset[1] + i]];
      } else {
        for (std::int64_t i = 0; i < n; ++i)
          result[i * step[2]] = line[i * step[0] + at[offset[1] + i * step[1]] * along];
      }
    });
  });
}

struct Set {
  template <class T> T operator()(T, T given) const { return given; }
};
struct Add {
  template <class T> T operator()(T old, T given) const {
    if constexpr (std::is_floating_point_v<T>)
      return old + given;
    else
      return static_cast<T>(static_cast<Wrapping<T>>(old) + static_cast<Wrapping<T>>(given));
  }
};
template <> inline bool Add::operator()(bool old, bool given) const { return old || given; }
// The minimum and maximum are NaN if either value is.
struct Min {
  template <class T> T operator()(T old, T given) const {
    return given < old || given != given ? given : old;
  }
};
struct Max {
  template <class T> T operator()(T old, T given) const {
    return given > old || given != given ? given : old;
  }
};

// y[i] = f(y[i], x[i]), with separate loops for contiguous elements.
template <class T, class F>
void change_run(T* y, std::int64_t y_step, const T* x, std::int64_t x_step, std::int64_t n, F f) {
  if (y_step == 1 && x_step == 1) {
    for (std::int64_t i = 0; i < n; ++i) y[i] = f(y[i], x[i]);
  } else if (y_step == 1 && x_step == 0) {
    const T value = *x;
    for (std::int64_t i = 0; i < n; ++i) y[i] = f(y[i], value);
  } else {
    for (std::int64_t i = 0; i < n; ++i) y[i * y_step] = f(y[i * y_step], x[i * x_step]);
  }
}

// The lines along the axis. No two of them write to the same element, so they run in parallel.
class ScatterLines {
 public:
  ScatterLines(const CheckedIndices& at, const NDArray& indices, const NDArray& source, const NDArray& y,
               int axis)
      : at_(at),
        places_(broadcast_strides(indices.shape(), contiguous_strides(indices.shape()), source.shape())),
        count_(source.shape()[axis]),
        place_step_(places_[axis]),
        source_step_(source.strides()[axis]),
        y_step_(y.strides()[axis]),
        loop_(without(source.shape(), axis),
              {without(y.strides(), axis), without(places_, axis), without(source.strides(), axis)}) {}

  template <class T, class F> void run(const T* source, T* y, F f) const {
    const auto step = loop_.inner_steps();
    const auto line = [&](const auto& offset, std::int64_t n) {
      for (std::int64_t j = 0; j < count_; ++j) {
        const std::int64_t place = offset[1] + j * place_step_;
        const T* from = source + offset[2] + j * source_step_;
        T* to = y + offset[0];
        if (step[1] == 0) {
          change_run(to + at_[place] * y_step_, step[0], from, step[2], n, f);
          continue;
        }
        for (std::int64_t i = 0; i < n; ++i) {
          T& element = to[i * step[0] + at_[place + i * step[1]] * y_step_];
          element = f(element, from[i * step[2]]);
        }
      }
    };
    loop_.run(line, std::max<std::int64_t>(1, kElementGrain / std::max<std::int64_t>(1, count_)));
  }

 private:
  const CheckedIndices& at_;
  Strides places_;
  std::int64_t count_, place_step_, source_step_, y_step_;
  StridedLoop<3> loop_;
};

void scatter_kernel(const KernelContext&, const char* op, const NDArray& indices, const NDArray& source,
                    const NDArray& y, int axis, Scatter how) {
  const CheckedIndices at(op, indices, y.shape()[axis], true, y);
  at.check_all();
  if (source.size() == 0) return;
  const ScatterLines lines(at, indices, source, y, axis);
  if (how == Scatter::set) {
    return visit_bits(y.dtype(), [&]<class Bits> {
      lines.run(reinterpret_cast<const Bits*>(source.data<const std::byte>()),
                reinterpret_cast<Bits*>(y.data<std::byte>()), Set{});
    });
  }
  visit_number(y.dtype(), [&]<class T> {
    const T* from = source.data<const T>();
    T* to = y.data<T>();
    if (how == Scatter::add) return lines.run(from, to, Add{});
    how == Scatter::min ? lines.run(from, to, Min{}) : lines.run(from, to, Max{});
  });
}

void flat_index_kernel(const KernelContext&, const char* op, const std::vector<NDArray>& indices,
                       const Dims& bounds, const NDArray& y) {
  auto* to = y.data<std::int64_t>();
  std::fill_n(to, y.size(), 0);
  for (std::size_t k = 0; k < indices.size(); ++k) {
    const std::int64_t bound = bounds[static_cast<int>(k)];
    const CheckedIndices at(op, indices[k], bound, true, y);
    for (std::int64_t i = 0; i < at.size(); ++i) to[i] = to[i] * bound + at[i];
  }
}

}  // namespace

HEDDLE_CPU_KERNELS(gather_scatter) {
  table.add<GatherKernel>("gather", DeviceKind::cpu, gather_kernel);
  table.add<ScatterKernel>("scatter", DeviceKind::cpu, scatter_kernel);
  table.add<FlatIndexKernel>("flat_index", DeviceKind::cpu, flat_index_kernel);
}

}  // namespace heddle::cpu_kernels
