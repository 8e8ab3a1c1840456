// Registers the scans for GPUs.
#include "core/kernel_table.h"
#include "cuda/arrays.h"
#include "families/scan/cuda/kernels.h"
#include "families/scan/kernels.h"

namespace heddle::cuda_kernels {
namespace {

ScanLines lines_of(const NDArray& x, const NDArray& y, int axis) {
  ScanLines lines{
      1, x.shape()[axis], 1, static_cast<unsigned char>(x.dtype()), read<void>(x), written<void>(y)};
  for (int i = 0; i < axis; ++i) lines.outer *= x.shape()[i];
  for (int i = axis + 1; i < x.ndim(); ++i) lines.inner *= x.shape()[i];
  return lines;
}

template <const char* (*launch)(void*, const ScanLines&, ScratchBlocks&)>
void scan_kernel(const KernelContext& context, const NDArray& x, const NDArray& y, int axis) {
  if (y.size() == 0) return;
  ScratchBlocks scratch(context);
  check_launch(context, launch(context.stream().native(), lines_of(x, y, axis), scratch));
}

template <bool largest>
void extreme_kernel(const KernelContext& context, const NDArray& x, const NDArray& values,
                    const NDArray& indices, int axis) {
  if (x.size() == 0) return;
  ScratchBlocks scratch(context);
  check_launch(context, launch_cumextreme(context.stream().native(), lines_of(x, values, axis),
                                          written<long long>(indices), largest, scratch));
}

void cumprod_gradient_kernel(const KernelContext& context, const NDArray& g, const NDArray& x,
                             const NDArray& y, int axis) {
  if (y.size() == 0) return;
  ScratchBlocks scratch(context);
  check_launch(context, launch_cumprod_gradient(context.stream().native(), lines_of(x, y, axis),
                                                read<void>(g), scratch));
}

}  // namespace
}  // namespace heddle::cuda_kernels

namespace heddle {

HEDDLE_CUDA_KERNELS(scan) {
  using namespace cuda_kernels;
  table.add<ScanKernel>("cumsum", DeviceKind::cuda, scan_kernel<launch_cumsum>);
  table.add<ScanKernel>("cumprod", DeviceKind::cuda, scan_kernel<launch_cumprod>);
  table.add<ScanKernel>("product_of_others", DeviceKind::cuda, scan_kernel<launch_product_of_others>);
  table.add<CumprodGradientKernel>("cumprod_gradient", DeviceKind::cuda, cumprod_gradient_kernel);
  table.add<ScanExtremeKernel>("cummax", DeviceKind::cuda, extreme_kernel<true>);
  table.add<ScanExtremeKernel>("cummin", DeviceKind::cuda, extreme_kernel<false>);
}

}  // namespace heddle
