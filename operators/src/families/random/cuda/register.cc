// Registers the kernels of the random operators for GPUs.
#include "core/kernel_table.h"
#include "cuda/arrays.h"
#include "families/random/cuda/kernels.h"
#include "families/random/dropout_kernels.h"

namespace heddle::cuda_kernels {
namespace {

void dropout_kernel(const KernelContext& context, const NDArray& x, const NDArray& mask,
                    const DropoutMap& map, const NDArray& y) {
  if (x.size() == 0) return;
  const DropoutCall call{read<void>(x),          read<void>(mask), written<void>(y), x.size(),
                         x.size() / mask.size(), map.scale,        map.shift,        map.dropped,
                         x.dtype() == DType::f64};
  check_launch(context, launch_dropout(context.stream().native(), call));
}

}  // namespace
}  // namespace heddle::cuda_kernels

namespace heddle {

HEDDLE_CUDA_KERNELS(dropout) {
  table.add<DropoutKernel>("dropout", DeviceKind::cuda, cuda_kernels::dropout_kernel);
}

}  // namespace heddle
