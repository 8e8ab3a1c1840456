// Registers the kernels of linspace and logspace for GPUs.
#include "core/kernel_table.h"
#include "cuda/arrays.h"
#include "families/creation/cuda/kernels.h"
#include "families/creation/kernels.h"

namespace heddle::cuda_kernels {
namespace {

void series_kernel(const KernelContext& context, const Series& series, const NDArray& y) {
  if (y.size() == 0) return;
  check_launch(context, launch_series(context.stream().native(), series, written<void>(y), y.size(),
                                      static_cast<unsigned char>(y.dtype())));
}

}  // namespace
}  // namespace heddle::cuda_kernels

namespace heddle {

HEDDLE_CUDA_KERNELS(series) {
  table.add<SeriesKernel>("linspace", DeviceKind::cuda, cuda_kernels::series_kernel);
  table.add<SeriesKernel>("logspace", DeviceKind::cuda, cuda_kernels::series_kernel);
}

}  // namespace heddle
