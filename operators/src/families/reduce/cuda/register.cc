// Registers the reductions for GPUs.
#include "core/kernel_table.h"
#include "cuda/arrays.h"
#include "families/reduce/cuda/kernels.h"
#include "families/reduce/kernels.h"

namespace heddle::cuda_kernels {
namespace {

template <Fold fold>
void reduce_kernel(const KernelContext& context, const NDArray& x, const NDArray& y, const Dims& axes) {
  if (y.size() == 0) return;
  Reduction reduction{};
  reduction.dims = x.ndim();
  for (int axis = 0; axis < x.ndim(); ++axis) {
    reduction.sizes[axis] = x.shape()[axis];
    reduction.x_strides[axis] = x.strides()[axis];
    reduction.y_strides[axis] = y.strides()[axis];
  }
  for (const std::int64_t axis : axes) reduction.reduced[axis] = true;
  reduction.x = x.size() == 0 ? nullptr : address(x, check::AccessKind::read);
  reduction.y = address(y, check::AccessKind::write);
  reduction.dtype = static_cast<unsigned char>(x.dtype());
  reduction.result = static_cast<unsigned char>(y.dtype());
  ScratchBlocks scratch(context);
  check_launch(context, launch_reduce(context.stream().native(), fold, reduction, scratch));
}

template <Fold fold>
void arg_kernel(const KernelContext& context, const NDArray& x, const NDArray& y, int axis) {
  reduce_kernel<fold>(context, x, y, {axis});
}

}  // namespace
}  // namespace heddle::cuda_kernels

namespace heddle {

HEDDLE_CUDA_KERNELS(reduce) {
  using namespace cuda_kernels;
  table.add<ReduceKernel>("sum", DeviceKind::cuda, reduce_kernel<Fold::sum>);
  table.add<ReduceKernel>("prod", DeviceKind::cuda, reduce_kernel<Fold::prod>);
  table.add<ReduceKernel>("mean", DeviceKind::cuda, reduce_kernel<Fold::mean>);
  table.add<ReduceKernel>("sum_of_squares", DeviceKind::cuda, reduce_kernel<Fold::sum_of_squares>);
  table.add<ReduceKernel>("norm", DeviceKind::cuda, reduce_kernel<Fold::norm>);
  table.add<ReduceKernel>("max", DeviceKind::cuda, reduce_kernel<Fold::max>);
  table.add<ReduceKernel>("min", DeviceKind::cuda, reduce_kernel<Fold::min>);
  table.add<ReduceKernel>("any", DeviceKind::cuda, reduce_kernel<Fold::any>);
  table.add<ReduceKernel>("all", DeviceKind::cuda, reduce_kernel<Fold::all>);
  table.add<ReduceKernel>("count_nonzero", DeviceKind::cuda, reduce_kernel<Fold::count_nonzero>);
  table.add<ArgReduceKernel>("argmax", DeviceKind::cuda, arg_kernel<Fold::argmax>);
  table.add<ArgReduceKernel>("argmin", DeviceKind::cuda, arg_kernel<Fold::argmin>);
}

}  // namespace heddle
