// Registers the kernel of tril and triu for GPUs. Other operators on shapes are views and copies.
#include "core/kernel_table.h"
#include "cuda/arrays.h"
#include "families/elementwise/kernels.h"
#include "families/shape/cuda/triangle.h"

namespace heddle::cuda_kernels {
namespace {

void triangle_kernel(const KernelContext& context, const NDArray& x, const NDArray& y, std::int64_t k,
                     bool lower) {
  if (y.size() == 0) return;
  check_launch(context, launch_triangle(context.stream().native(), strided(x, check::AccessKind::read),
                                        strided(y, check::AccessKind::write), k, lower));
}

}  // namespace
}  // namespace heddle::cuda_kernels

namespace heddle {

HEDDLE_CUDA_KERNELS(shape) {
  table.add<TriangleKernel>("triangle", DeviceKind::cuda, cuda_kernels::triangle_kernel);
}

}  // namespace heddle
