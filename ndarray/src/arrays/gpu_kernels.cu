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

template <class Bits>
const char* copy_bits(void* stream, const on_gpu::Layout<2>& layout, const GpuView& source,
                      const GpuView& target) {
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
