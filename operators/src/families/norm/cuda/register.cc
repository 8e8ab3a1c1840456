// Registers the normalisations for GPUs.
#include "core/kernel_table.h"
#include "cuda/arrays.h"
#include "families/norm/cuda/kernels.h"
#include "families/norm/kernels.h"

namespace heddle::cuda_kernels {
namespace {

// Null for an array that is undefined or empty.
const void* read_or_null(const NDArray& array) {
  return array.defined() && array.size() > 0 ? read<void>(array) : nullptr;
}
void* written_or_null(const NDArray& array) {
  return array.defined() && array.size() > 0 ? written<void>(array) : nullptr;
}

Norm norm_of(const NormProblem& p, const NDArray& x, const NDArray& weight, const NDArray& bias) {
  return {p.rows,
          p.groups,
          p.channels,
          p.inner,
          p.of_channels,
          p.centered,
          p.epsilon,
          static_cast<unsigned char>(x.dtype()),
          read_or_null(x),
          read_or_null(weight),
          read_or_null(bias)};
}

void norm_kernel(const KernelContext& context, const NormProblem& p, const NDArray& x, const NDArray& weight,
                 const NDArray& bias, const NDArray& y, const NDArray& mean, const NDArray& scale,
                 const NDArray& variance) {
  const NormOutputs out{written_or_null(y), written_or_null(mean), written_or_null(scale),
                        written_or_null(variance)};
  ScratchBlocks scratch(context);
  check_launch(context, launch_norm(context.stream().native(), norm_of(p, x, weight, bias), out, scratch));
}

void norm_backward_kernel(const KernelContext& context, const NormProblem& p, const NDArray& g,
                          const NDArray& x, const NDArray& weight, const NDArray& mean, const NDArray& scale,
                          const NormGradients& gradients) {
  const NormGradientArrays arrays{read_or_null(g),
                                  read_or_null(mean),
                                  read_or_null(scale),
                                  written_or_null(gradients.x),
                                  written_or_null(gradients.weight),
                                  written_or_null(gradients.bias)};
  ScratchBlocks scratch(context);
  check_launch(context, launch_norm_backward(context.stream().native(), norm_of(p, x, weight, NDArray()),
                                             arrays, scratch));
}

}  // namespace
}  // namespace heddle::cuda_kernels

namespace heddle {

HEDDLE_CUDA_KERNELS(norm) {
  using namespace cuda_kernels;
  table.add<NormKernel>("normalise", DeviceKind::cuda, norm_kernel);
  table.add<NormBackwardKernel>("normalise_backward", DeviceKind::cuda, norm_backward_kernel);
}

}  // namespace heddle
