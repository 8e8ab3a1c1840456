#include "cuda/data_fault.h"

#include <new>
#include <utility>

#include <heddle/array_error.h>
#include <heddle/gpu_memory.h>

namespace heddle::cuda_kernels {

DataFault::DataFault() {
  std::byte* const memory = gpu_allocate_pinned(sizeof(FaultSlot));
  if (!memory) throw OutOfMemory("a report of a kernel", sizeof(FaultSlot));
  slot_ = {new (memory) FaultSlot{}, [memory](FaultSlot*) { gpu_free_pinned(memory); }};
}

void DataFault::check(const KernelContext& context, std::function<void(const FaultSlot&)> refuse) const {
  context.stream().check_when_done([slot = slot_, refuse = std::move(refuse)] {
    if (slot->found) refuse(*slot);
  });
}

}  // namespace heddle::cuda_kernels
