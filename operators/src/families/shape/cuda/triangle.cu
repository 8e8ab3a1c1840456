// tril and triu.
#include <cstdint>

#include "cuda/indices.h"
#include "families/shape/cuda/triangle.h"

namespace heddle::cuda_kernels {
namespace {

template <class Unit> struct Triangle {
  on_gpu::Layout<2> layout;
  const Unit* x;
  Unit* y;
  long long rows, columns, k;
  bool lower;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    for (long long i = thread.global_index(); i < layout.count; i += thread.global_size()) {
      long long at[2];
      layout.locate(i, at);
      const Split place = split(at[1], columns);
      const long long border = split(place.quotient, rows).rest + k;
      const bool kept = lower ? place.rest <= border : place.rest >= border;
      y[at[1]] = kept ? x[at[0]] : Unit{0};
    }
  }
};

template <class Unit>
const char* triangle(cudaStream_t stream, const Strided& x, const Strided& y, long long k, bool lower) {
  const long long* const strides[2] = {x.strides, y.strides};
  const Triangle<Unit> kernel{on_gpu::make_layout<2>(y.dims, y.sizes, strides),
                              static_cast<const Unit*>(x.data),
                              static_cast<Unit*>(y.data),
                              y.sizes[y.dims - 2],
                              y.sizes[y.dims - 1],
                              k,
                              lower};
  return on_gpu::launch_over(stream, kernel.layout.count, kernel);
}

}  // namespace

const char* launch_triangle(void* on, const Strided& x, const Strided& y, long long k, bool lower) {
  const auto stream = static_cast<cudaStream_t>(on);
  switch (on_gpu::size_of(on_gpu::Type{y.type})) {
    case 8:
      return triangle<std::uint64_t>(stream, x, y, k, lower);
    case 4:
      return triangle<std::uint32_t>(stream, x, y, k, lower);
    case 2:
      return triangle<std::uint16_t>(stream, x, y, k, lower);
    default:
      return triangle<std::uint8_t>(stream, x, y, k, lower);
  }
}

}  // namespace heddle::cuda_kernels
