// Registers the kernels of activations for GPUs.
#include "families/activation/cuda/kernels.h"
#include "families/elementwise/cuda/entry_kernels.h"

namespace heddle {

HEDDLE_CUDA_KERNELS(activation) {
  using namespace cuda_kernels;
  add_unary<kActivations>(table);
  add_binary<kActivationGradients>(table);
  add_binary<kActivationsWithNumber>(table);
}

}  // namespace heddle
