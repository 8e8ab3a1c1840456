#include <algorithm>
#include <cstdint>

#include <heddle/parallel.h>

#include "core/kernel_table.h"
#include "cpu/floating.h"
#include "families/random/dropout_kernels.h"

namespace heddle::cpu_kernels {
namespace {

constexpr std::int64_t kDropoutGrain = 32768;

// Computes all elements and then selects, since half of the branches on a mask are mispredicted.
template <class T>
void drop_elements(const DropoutMap& map, const T* x, const T* mask, std::int64_t size, T* y) {
  parallel_for(size, kDropoutGrain, [=](std::int64_t begin, std::int64_t end) {
    const T* const from = x;
    const T* const keep = mask;
    T* const to = y;
    const T scale = static_cast<T>(map.scale), shift = static_cast<T>(map.shift),
            dropped = static_cast<T>(map.dropped);
    if (shift == T(0)) {  // without the sum, which would make 0 of -0
#pragma GCC ivdep
      for (std::int64_t i = begin; i < end; ++i) {
        const T kept = from[i] * scale;
        to[i] = keep[i] != T(0) ? kept : dropped;
      }
    } else {
#pragma GCC ivdep
      for (std::int64_t i = begin; i < end; ++i) {
        const T kept = from[i] * scale + shift;
        to[i] = keep[i] != T(0) ? kept : dropped;
      }
    }
  });
}

// `inner` elements for each of the mask.
template <class T>
void drop_blocks(const DropoutMap& map, const T* x, const T* mask, std::int64_t blocks, std::int64_t inner,
                 T* y) {
  const T scale = static_cast<T>(map.scale), shift = static_cast<T>(map.shift),
          dropped = static_cast<T>(map.dropped);
  parallel_for(blocks, std::max<std::int64_t>(1, kDropoutGrain / inner),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t block = begin; block < end; ++block) {
                   const T* const from = x + block * inner;
                   T* const to = y + block * inner;
                   if (mask[block] == T(0)) {
                     std::fill_n(to, inner, dropped);
                   } else if (shift == T(0)) {
                     for (std::int64_t i = 0; i < inner; ++i) to[i] = from[i] * scale;
                   } else {
                     for (std::int64_t i = 0; i < inner; ++i) to[i] = from[i] * scale + shift;
                   }
                 }
               });
}

void dropout_kernel(const KernelContext&, const NDArray& x, const NDArray& mask, const DropoutMap& map,
                    const NDArray& y) {
  if (x.size() == 0) return;
  const std::int64_t blocks = mask.size(), inner = x.size() / blocks;
  visit_floating(x.dtype(), [&]<class T>() {
    const T *from = x.data<const T>(), *keep = mask.data<const T>();
    if (inner == 1) return drop_elements(map, from, keep, blocks, y.data<T>());
    drop_blocks(map, from, keep, blocks, inner, y.data<T>());
  });
}

}  // namespace

HEDDLE_CPU_KERNELS(dropout) { table.add<DropoutKernel>("dropout", DeviceKind::cpu, dropout_kernel); }

}  // namespace heddle::cpu_kernels
