// Kernels of clip, and of triangles of matrices.
#include "families/elementwise/cuda/kernels.h"
#include "families/elementwise/cuda/map_by_dtype.h"
#include "families/elementwise/select_functors.h"

namespace heddle::cuda_kernels {
namespace {

using namespace functors;

template <class Bits> struct Triangle {
  on_gpu::Layout<2> layout;  // of x and y, which is contiguous
  const Bits* x;
  Bits* y;
  long long rows, columns, k;
  bool upper;
  HEDDLE_DEVICE bool keeps(long long i) const {
    long long row, column;
    if (layout.count <= 0x7fffffff) {
      const unsigned line = static_cast<unsigned>(i) / static_cast<unsigned>(columns);
      column = static_cast<unsigned>(i) - line * static_cast<unsigned>(columns);
      row = line % static_cast<unsigned>(rows);
    } else {
      column = i % columns;
      row = i / columns % rows;
    }
    return upper ? column - row >= k : column - row <= k;
  }
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    for (long long i = thread.global_index(); i < layout.count; i += thread.global_size()) {
      long long at[2];
      layout.locate(i, at);
      y[i] = keeps(i) ? x[at[0]] : Bits{};
    }
  }
};

template <class Bits>
const char* triangle(void* stream, const Elements& elements, long long rows, long long columns, long long k,
                     bool upper) {
  const Triangle<Bits> kernel{layout_of<1>(elements),
                              static_cast<const Bits*>(elements.in[0].data),
                              static_cast<Bits*>(elements.out),
                              rows,
                              columns,
                              k,
                              upper};
  return on_gpu::launch_over(static_cast<cudaStream_t>(stream), kernel.layout.count, kernel);
}

}  // namespace

const char* launch_clip(void* stream, const Elements& elements) {
  return map_numbers<Clip, void, 3>(stream, elements);
}

const char* launch_triangle(void* stream, const Elements& elements, long long rows, long long columns,
                            long long k, bool upper) {
  switch (on_gpu::size_of(Type{elements.dtype})) {
    case 8:
      return triangle<std::uint64_t>(stream, elements, rows, columns, k, upper);
    case 4:
      return triangle<std::uint32_t>(stream, elements, rows, columns, k, upper);
    case 2:
      return triangle<std::uint16_t>(stream, elements, rows, columns, k, upper);
    default:
      return triangle<std::uint8_t>(stream, elements, rows, columns, k, upper);
  }
}

}  // namespace heddle::cuda_kernels
