#include "cuda/data_fault.h"

#include <new>
#include <utility>

#include <heddle/array_error.h>
#include <heddle/call_site.h>
#include <heddle/gpu_memory.h>

namespace heddle::cuda_kernels {

DataFault::DataFault(const KernelContext& context) : context_(context) {
  std::byte* const memory = gpu_allocate_pinned(sizeof(FaultSlot));
  if (!memory) throw OutOfMemory("a report of a kernel", sizeof(FaultSlot));
  slot_ = {new (memory) FaultSlot{}, [memory](FaultSlot*) { gpu_free_pinned(memory); }};
}

DataFault::~DataFault() {
  if (checked_) return;
  try {
    context_.stream().check_when_done([slot = slot_] {});
  } catch (...) {
    static_cast<void>(new std::shared_ptr<FaultSlot>(
        slot_));  // lost, rather than written by a kernel while another op has it
  }
}

void DataFault::check(const KernelContext& context, std::function<void(const FaultSlot&)> refuse) const {
  context.stream().check_when_done([slot = slot_, refuse = std::move(refuse), where = CallSite::of_error()] {
    if (!slot->found) return;
    const CallSite site = CallSite::on_behalf_of(where);  // the error names the line that pushed the op
    refuse(*slot);
  });
  checked_ = true;
}

}  // namespace heddle::cuda_kernels
