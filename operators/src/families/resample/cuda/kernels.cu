// Resampling on GPUs: a thread computes one element. The sum over the first axis is the innermost, as on the CPU, and entries are
// added in their order.
#include <cstdint>

#include "families/resample/cuda/kernels.h"
#include "gpu/layout.h"

namespace heddle::cuda_kernels {
namespace {

struct Element {
  long long plane, at[3];
};
HEDDLE_DEVICE Element element_of(const Resample& r, long long index) {
  Element element{};
  for (int axis = 2; axis >= 0; --axis) {
    const long long out = r.axes[axis].out;
    if (index <= 0x7fffffff && out <= 0x7fffffff) {  // a division of 64 bits takes several times as long
      const unsigned whole = static_cast<unsigned>(index) / static_cast<unsigned>(out);
      element.at[axis] = index - static_cast<long long>(whole) * out;
      index = whole;
    } else {
      element.at[axis] = index % out;
      index /= out;
    }
  }
  element.plane = index;
  return element;
}
HEDDLE_DEVICE long long outputs(const Resample& r) {
  return r.planes * r.axes[0].out * r.axes[1].out * r.axes[2].out;
}
HEDDLE_DEVICE long long plane_begin(const Resample& r, long long plane) {
  return plane * r.axes[0].in * r.axes[1].in * r.axes[2].in;
}

template <class T> struct Weighted {
  Resample r;

  // The sum over the entries of an output along an axis, of the values that of() gives for an input.
  template <class Of> static HEDDLE_DEVICE T sum(const AxisEntries& axis, long long output, const Of& of) {
    if (axis.identity) return of(output);
    T total = 0;
    const long long begin = axis.begin[output], end = axis.begin[output + 1];
    for (long long k = begin; k < end; ++k) {
      const T term = static_cast<const T*>(axis.weight)[k] * of(axis.index[k]);
      total = k == begin ? term : total + term;
    }
    return total;
  }
  struct Planes {
    const Weighted& all;
    const T* x;
    long long row, column;
    HEDDLE_DEVICE T operator()(long long plane) const {
      return x[(plane * all.r.axes[1].in + row) * all.r.axes[2].in + column];
    }
  };
  struct Rows {
    const Weighted& all;
    const T* x;
    const Element& element;
    long long column;
    HEDDLE_DEVICE T operator()(long long row) const {
      return sum(all.r.axes[0], element.at[0], Planes{all, x, row, column});
    }
  };
  struct Columns {
    const Weighted& all;
    const T* x;
    const Element& element;
    HEDDLE_DEVICE T operator()(long long column) const {
      return sum(all.r.axes[1], element.at[1], Rows{all, x, element, column});
    }
  };
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    const long long count = outputs(r);
    for (long long i = thread.global_index(); i < count; i += thread.global_size()) {
      const Element element = element_of(r, i);
      const T* const x = static_cast<const T*>(r.x) + plane_begin(r, element.plane);
      static_cast<T*>(r.y)[i] = sum(r.axes[2], element.at[2], Columns{*this, x, element});
    }
  }
};

template <class Bits> struct Nearest {
  Resample r;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    const long long count = outputs(r);
    for (long long i = thread.global_index(); i < count; i += thread.global_size()) {
      const Element element = element_of(r, i);
      long long from[3];
      for (int axis = 0; axis < 3; ++axis) from[axis] = r.axes[axis].index[element.at[axis]];
      const long long at = (from[0] * r.axes[1].in + from[1]) * r.axes[2].in + from[2];
      static_cast<Bits*>(r.y)[i] = static_cast<const Bits*>(r.x)[plane_begin(r, element.plane) + at];
    }
  }
};

template <class K> const char* launch_elements(void* stream, const Resample& r) {
  const long long count = r.planes * r.axes[0].out * r.axes[1].out * r.axes[2].out;
  return on_gpu::launch_over(static_cast<cudaStream_t>(stream), count, K{r});
}

}  // namespace

const char* launch_resample(void* stream, const Resample& r) {
  return r.bytes == 8 ? launch_elements<Weighted<double>>(stream, r)
                      : launch_elements<Weighted<float>>(stream, r);
}

const char* launch_nearest(void* stream, const Resample& r) {
  if (r.bytes == 8) return launch_elements<Nearest<std::uint64_t>>(stream, r);
  if (r.bytes == 4) return launch_elements<Nearest<std::uint32_t>>(stream, r);
  if (r.bytes == 2) return launch_elements<Nearest<std::uint16_t>>(stream, r);
  return launch_elements<Nearest<std::uint8_t>>(stream, r);
}

}  // namespace heddle::cuda_kernels
