// Dropout on GPUs. Without a shift, the results are the CPU's bits; with one, the CPU may round product and sum at once.
#include <cstdint>

#include "families/random/cuda/kernels.h"
#include "gpu/layout.h"

namespace heddle::cuda_kernels {
namespace {

template <class T, int count> struct alignas(sizeof(T) * count) Pack { T values[count]; };

template <class T> struct Dropout {
  static constexpr int kPack = 16 / sizeof(T);
  const T *x, *mask;
  T* y;
  long long count, inner;
  T scale, shift, dropped;
  bool packs;  // each element has its own of the mask, and all arrays are aligned
  HEDDLE_DEVICE T of(T value, T keep) const {
    if (keep == T(0)) return dropped;
    return shift == T(0) ? value * scale
                         : value * scale + shift;  // without the sum, which would make 0 of -0
  }
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    using Four = Pack<T, kPack>;
    long long first = 0;
    if (packs) {
      const long long whole = count / kPack;
      for (long long i = thread.global_index(); i < whole; i += thread.global_size()) {
        const Four from = reinterpret_cast<const Four*>(x)[i], keep = reinterpret_cast<const Four*>(mask)[i];
        Four to;
        for (int k = 0; k < kPack; ++k) to.values[k] = of(from.values[k], keep.values[k]);
        reinterpret_cast<Four*>(y)[i] = to;
      }
      first = whole * kPack;
    }
    for (long long i = first + thread.global_index(); i < count; i += thread.global_size()) {
      const long long block = inner == 1            ? i
                              : count <= 0x7fffffff ? static_cast<unsigned>(i) / static_cast<unsigned>(inner)
                                                    : i / inner;
      y[i] = of(x[i], mask[block]);
    }
  }
};

template <class T> const char* dropout(void* stream, const DropoutCall& call) {
  Dropout<T> kernel{static_cast<const T*>(call.x),
                    static_cast<const T*>(call.mask),
                    static_cast<T*>(call.y),
                    call.count,
                    call.inner,
                    static_cast<T>(call.scale),
                    static_cast<T>(call.shift),
                    static_cast<T>(call.dropped),
                    false};
  const auto addresses = reinterpret_cast<std::uintptr_t>(call.x) |
                         reinterpret_cast<std::uintptr_t>(call.mask) |
                         reinterpret_cast<std::uintptr_t>(call.y);
  kernel.packs = call.inner == 1 && addresses % 16 == 0;
  const long long threads = kernel.packs ? call.count / kernel.kPack + kernel.kPack : call.count;
  return on_gpu::launch_over(static_cast<cudaStream_t>(stream), threads, kernel);
}

}  // namespace

const char* launch_dropout(void* stream, const DropoutCall& call) {
  return call.wide ? dropout<double>(stream, call) : dropout<float>(stream, call);
}

}  // namespace heddle::cuda_kernels
