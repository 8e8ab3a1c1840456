// A build without CUDA has no kernels for GPUs: every lookup of one throws.
#include "core/kernel_table.h"

namespace heddle {

void register_cuda_kernels(KernelTable&) {}

}  // namespace heddle
