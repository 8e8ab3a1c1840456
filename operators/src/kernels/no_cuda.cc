// The CUDA side of the link seam in a build without CUDA: no kernels, so that every lookup for cuda says so.
#include "kernels/kernel_table.h"

namespace heddle {

void register_cuda_kernels(KernelTable&) {}

}  // namespace heddle
