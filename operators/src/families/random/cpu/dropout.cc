#include <cstdint>

#include <heddle/parallel.h>

#include "core/kernel_table.h"
#include "cpu/floating.h"
#include "families/random/dropout_kernels.h"

namespace heddle::cpu_kernels {
namespace {

void dropout_kernel(const KernelContext&, const NDArray& x, const NDArray& mask, double scale,
                    const NDArray& y) {
  constexpr std::int64_t kGrain = 32768;
  cpu_kernels::visit_floating(x.dtype(), [&]<class T>() {
    const T *from = x.data<const T>(), *keep = mask.data<const T>(), factor = static_cast<T>(scale);
    T* to = y.data<T>();
    parallel_for(x.size(), kGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) to[i] = keep[i] != T(0) ? from[i] * factor : T(0);
    });
  });
}

}  // namespace

HEDDLE_CPU_KERNELS(dropout) { table.add<DropoutKernel>("dropout", DeviceKind::cpu, dropout_kernel); }

}  // namespace heddle::cpu_kernels
