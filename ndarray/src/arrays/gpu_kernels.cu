// Copies with conversion, fills and ranges on one GPU.
#include "arrays/gpu_kernels.h"
#include "gpu/elements.h"
#include "gpu/layout.h"

namespace heddle::ndarray_detail {
namespace {

using on_gpu::Type;

// Elements are loaded as a type that holds them exactly, and the type of the target is looked at for each: it is the same
// for all threads, so that a kernel for each pair of types would hardly be faster.
template <class As> struct Copy {
  on_gpu::Layout<2> layout;
  const void* source;
  void* target;
  Type from, to;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    for (long long i = thread.global_index(); i < layout.count; i += thread.global_size()) {
      long long at[2];
      layout.locate(i, at);
      on_gpu::store(target, at[1], to, on_gpu::load<As>(source, at[0], from));
    }
  }
};

// Copies elements of equal width as they are.
template <class Bits> struct CopyBits {
  on_gpu::Layout<2> layout;
  const Bits* source;
  Bits* target;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    for (long long i = thread.global_index(); i < layout.count; i += thread.global_size()) {
      long long at[2];
      layout.locate(i, at);
      target[at[1]] = source[at[0]];
    }
  }
};

// Copies squares of two axes through shared memory, as of a transpose: elements that are neighbours in the source along the one axis,
// and in the target along the other one, are read together and written together.
constexpr int kSide = 32;
struct Squares {
  on_gpu::Layout<2> others;  // of all other axes
  long long sizes[2];        // of the source's axis, and of the target's
  long long steps[2][2];     // of each axis, in the source and in the target
  long long across[2];       // squares along each axis
  HEDDLE_DEVICE long long count() const { return others.count * across[0] * across[1]; }
};
template <class Bits> struct CopySquares {
  Squares all;
  const Bits* source;
  Bits* target;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    HEDDLE_SHARED(thread, square, Bits[kSide][kSide + 1]);  // columns begin in different banks
    const int lane = thread.lane(), step = thread.size() / kSide;
    for (long long i = thread.block_index().x; i < all.count(); i += thread.grid_dim().x) {
      const long long line = i / all.across[0],
                      first[2] = {(i - line * all.across[0]) * kSide, line % all.across[1] * kSide};
      long long at[2];
      all.others.locate(line / all.across[1], at);
      for (int row = thread.warp(); row < kSide; row += step) {
        const long long a = first[0] + lane, b = first[1] + row;
        if (a < all.sizes[0] && b < all.sizes[1])
          square[row][lane] = source[at[0] + a * all.steps[0][0] + b * all.steps[1][0]];
      }
      thread.barrier();
      for (int row = thread.warp(); row < kSide; row += step) {
        const long long a = first[0] + row, b = first[1] + lane;
        if (a < all.sizes[0] && b < all.sizes[1])
          target[at[1] + a * all.steps[0][1] + b * all.steps[1][1]] = square[lane][row];
      }
      thread.barrier();
    }
  }
};

template <class Bits> struct Fill {
  on_gpu::Layout<1> layout;
  Bits* target;
  Bits value;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    for (long long i = thread.global_index(); i < layout.count; i += thread.global_size()) {
      long long at[1];
      layout.locate(i, at);
      target[at[0]] = value;
    }
  }
};

struct Range {
  GpuRange range;
  long long count;
  void* target;
  Type type;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    for (long long i = thread.global_index(); i < count; i += thread.global_size()) {
      if (range.exact)
        on_gpu::store(target, i, type,
                      static_cast<unsigned long long>(range.begin_bits +
                                                      static_cast<std::uint64_t>(i) * range.step_bits));
      else
        on_gpu::store(target, i, type, range.begin + static_cast<double>(i) * range.step);
    }
  }
};

template <class K> const char* run(void* stream, long long count, const K& kernel) {
  return on_gpu::launch_over(static_cast<cudaStream_t>(stream), count, kernel);
}

template <class As>
const char* convert(void* stream, const on_gpu::Layout<2>& layout, const GpuView& source,
                    const GpuView& target) {
  return run(stream, layout.count,
             Copy<As>{layout, source.data, target.data, Type{source.dtype}, Type{target.dtype}});
}

// Whether squares are worth it: neighbours in the source are none in the target. The last axis is the target's fastest one.
bool squares_of(const on_gpu::Layout<2>& layout, Squares& all) {
  const int last = layout.dims - 1;
  int fastest = 0;
  for (int d = 1; d < layout.dims; ++d)
    if (std::llabs(layout.steps[d][0]) <= std::llabs(layout.steps[fastest][0])) fastest = d;
  const bool neighbours = std::llabs(layout.steps[fastest][0]) == 1 && std::llabs(layout.steps[last][1]) == 1;
  constexpr long long kLeast = 8;
  if (!neighbours || fastest == last || layout.sizes[fastest] < kLeast || layout.sizes[last] < kLeast)
    return false;
  all.others = layout;
  all.others.dims = 0;
  for (int d = 0; d < layout.dims; ++d) {
    if (d == fastest || d == last) continue;
    const int to = all.others.dims++;
    all.others.sizes[to] = layout.sizes[d];
    for (int k = 0; k < 2; ++k) all.others.steps[to][k] = layout.steps[d][k];
  }
  if (all.others.dims == 0)
    all.others.sizes[0] = 1, all.others.steps[0][0] = all.others.steps[0][1] = 0, all.others.dims = 1;
  const int axes[2] = {fastest, last};
  for (int axis = 0; axis < 2; ++axis) {
    all.sizes[axis] = layout.sizes[axes[axis]];
    all.across[axis] = (all.sizes[axis] + kSide - 1) / kSide;
    for (int k = 0; k < 2; ++k) all.steps[axis][k] = layout.steps[axes[axis]][k];
  }
  all.others.count = layout.count / (all.sizes[0] * all.sizes[1]);
  return true;
}

const char* copy_memory(void* stream, long long bytes, const GpuView& source, const GpuView& target) {
  const cudaError_t status = cudaMemcpyAsync(target.data, source.data, static_cast<std::size_t>(bytes),
                                             cudaMemcpyDeviceToDevice, static_cast<cudaStream_t>(stream));
  if (status == cudaSuccess) return nullptr;
  cudaGetLastError();
  return cudaGetErrorString(status);
}

template <class Bits>
const char* copy_bits(void* stream, const on_gpu::Layout<2>& layout, const GpuView& source,
                      const GpuView& target) {
  if (layout.dims == 1 && layout.steps[0][0] == 1 && layout.steps[0][1] == 1)
    return copy_memory(stream, layout.count * static_cast<long long>(sizeof(Bits)), source, target);
  Squares all;
  if (squares_of(layout, all)) {
    const auto* const from = reinterpret_cast<const Bits*>(source.data);
    const long long squares = all.others.count * all.across[0] * all.across[1];
    return run(stream, squares * on_gpu::kThreads,
               CopySquares<Bits>{all, from, reinterpret_cast<Bits*>(target.data)});
  }
  return run(stream, layout.count,
             CopyBits<Bits>{layout, reinterpret_cast<const Bits*>(source.data),
                            reinterpret_cast<Bits*>(target.data)});
}

template <class Bits>
const char* fill(void* stream, const on_gpu::Layout<1>& layout, const GpuView& target,
                 const GpuNumber& value) {
  Bits bits;
  memcpy(&bits, value.bytes, sizeof bits);
  return run(stream, layout.count, Fill<Bits>{layout, reinterpret_cast<Bits*>(target.data), bits});
}

}  // namespace

const char* gpu_copy(void* stream, const GpuShape& shape, const GpuView& source, const GpuView& target) {
  const auto layout = on_gpu::make_layout<2>(shape.dims, shape.sizes, {source.strides, target.strides});
  const Type from{source.dtype};
  if (source.dtype == target.dtype && from != Type::boolean) {
    const int size = on_gpu::size_of(from);
    if (size == 8) return copy_bits<std::uint64_t>(stream, layout, source, target);
    if (size == 4) return copy_bits<std::uint32_t>(stream, layout, source, target);
    if (size == 2) return copy_bits<std::uint16_t>(stream, layout, source, target);
    return copy_bits<std::uint8_t>(stream, layout, source, target);
  }
  switch (from) {
    case Type::f32:
    case Type::f16:
    case Type::bf16:
      return convert<float>(stream, layout, source, target);
    case Type::f64:
      return convert<double>(stream, layout, source, target);
    case Type::i8:
    case Type::i16:
    case Type::i32:
    case Type::i64:
      return convert<long long>(stream, layout, source, target);
    default:
      return convert<unsigned long long>(stream, layout, source, target);
  }
}

const char* gpu_fill(void* stream, const GpuShape& shape, const GpuView& target, const GpuNumber& value) {
  const auto layout = on_gpu::make_layout<1>(shape.dims, shape.sizes, {target.strides});
  const int size = on_gpu::size_of(Type{target.dtype});
  if (size == 8) return fill<std::uint64_t>(stream, layout, target, value);
  if (size == 4) return fill<std::uint32_t>(stream, layout, target, value);
  if (size == 2) return fill<std::uint16_t>(stream, layout, target, value);
  return fill<std::uint8_t>(stream, layout, target, value);
}

const char* gpu_range(void* stream, long long count, const GpuView& target, const GpuRange& range) {
  return run(stream, count, Range{range, count, target.data, Type{target.dtype}});
}

}  // namespace heddle::ndarray_detail
