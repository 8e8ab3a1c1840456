#include "cuda/data_fault.h"

#include <new>
#include <utility>

#include <heddle/array_error.h>
#include <heddle/call_site.h>
#include <heddle/gpu_memory.h>

namespace heddle::cuda_kernels {

DataFault::DataFault() {
  std::byte* const memory = gpu_allocate_pinned(sizeof(FaultSlot));
  if (!memory) throw OutOfMemory("a report of a kernel", sizeof(FaultSlot));
  slot_ = {new (memory) FaultSlot{}, [memory](FaultSlot*) { gpu_free_pinned(memory); }};
}

void DataFault::check(const KernelContext& context, std::function<void(const FaultSlot&)> refuse) const {
  context.stream().check_when_done([slot = slot_, refuse = std::move(refuse), where = CallSite::of_error()] {
    if (!slot->found) return;
    const CallSite site = CallSite::on_behalf_of(where);  // the error names the line that pushed the op
    refuse(*slot);
  });
}

}  // namespace heddle::cuda_kernels
