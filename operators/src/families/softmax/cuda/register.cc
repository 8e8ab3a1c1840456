// Registers softmax and cross entropy for GPUs.
#include "core/kernel_table.h"
#include "cuda/arrays.h"
#include "cuda/data_fault.h"
#include "cuda/scratch.h"
#include "families/reduce/cuda/kernels.h"
#include "families/softmax/cuda/kernels.h"
#include "families/softmax/kernels.h"

namespace heddle::cuda_kernels {
namespace {

unsigned char number_of(const NDArray& array) { return static_cast<unsigned char>(array.dtype()); }

Lines lines_of(const SoftmaxProblem& p, const NDArray& x) {
  return {p.outer, p.length, p.inner, p.log, number_of(x)};
}

void softmax_kernel(const KernelContext& context, const SoftmaxProblem& p, const NDArray& x,
                    const NDArray& y) {
  if (x.size() == 0) return;
  ScratchBlocks scratch(context);
  check_launch(context, launch_softmax(context.stream().native(), lines_of(p, x), read<void>(x),
                                       written<void>(y), number_of(y), scratch));
}

void softmax_backward_kernel(const KernelContext& context, const SoftmaxProblem& p, const NDArray& g,
                             const NDArray& y, const NDArray& x_grad) {
  if (g.size() == 0) return;
  ScratchBlocks scratch(context);
  check_launch(context, launch_softmax_backward(context.stream().native(), lines_of(p, x_grad), read<void>(g),
                                                read<void>(y), written<void>(x_grad), scratch));
}

LabelledRows labelled(const NDArray& x, const NDArray& labels) {
  return {x.shape()[0], x.shape()[1], number_of(x), labels.size() == 0 ? nullptr : read<void>(labels),
          number_of(labels)};
}

void cross_entropy_kernel(const KernelContext& context, const NDArray& logits, const NDArray& labels,
                          const NDArray& probabilities, const NDArray& loss) {
  const LabelledRows rows = labelled(logits, labels);
  void* const stream = context.stream().native();
  ScratchBlocks scratch(context);
  double* losses = nullptr;
  if (rows.rows > 0) {
    const DataFault fault(context);
    losses = scratch.take_array<double>(rows.rows);
    check_launch(context, launch_cross_entropy(stream, rows, read<void>(logits), written<void>(probabilities),
                                               losses, fault.slot(), scratch));
    fault.check(context, [classes = rows.classes](const FaultSlot& found) {
      refuse_label(static_cast<std::int64_t>(found.value), found.place, classes);
    });
  }
  check_launch(context,
               launch_mean_of(stream, losses, rows.rows, written<void>(loss), number_of(loss), scratch));
}

void cross_entropy_backward_kernel(const KernelContext& context, const NDArray& grad,
                                   const NDArray& probabilities, const NDArray& labels,
                                   const NDArray& logits_grad) {
  if (probabilities.size() == 0) return;
  check_launch(context, launch_cross_entropy_backward(context.stream().native(),
                                                      labelled(logits_grad, labels), read<void>(grad),
                                                      read<void>(probabilities), written<void>(logits_grad)));
}

}  // namespace
}  // namespace heddle::cuda_kernels

namespace heddle {

HEDDLE_CUDA_KERNELS(softmax) {
  using namespace cuda_kernels;
  table.add<SoftmaxKernel>("softmax", DeviceKind::cuda, softmax_kernel);
  table.add<SoftmaxBackwardKernel>("softmax_backward", DeviceKind::cuda, softmax_backward_kernel);
  table.add<CrossEntropyKernel>("cross_entropy", DeviceKind::cuda, cross_entropy_kernel);
  table.add<CrossEntropyBackwardKernel>("cross_entropy_backward", DeviceKind::cuda,
                                        cross_entropy_backward_kernel);
}

}  // namespace heddle
