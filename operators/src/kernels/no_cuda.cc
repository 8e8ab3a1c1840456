// Stands in for cuda/register.cu in a build without CUDA: no kernels, so that every lookup for cuda throws.
#include "kernels/kernel_table.h"

namespace heddle {

void register_cuda_kernels(KernelTable&) {}

}  // namespace heddle
