// Errors that data cause, such as an index out of range: kernels report where they are, and the op fails with the CPU's
// message once its work has run. The host does not wait.
//
//   const DataFault fault;
//   check_launch(context, launch_take(..., fault.slot()));
//   fault.check(context, [op, indices, bound](const FaultSlot& found) { refuse_index(op, found, indices, bound); });
#pragma once

#include <functional>
#include <memory>

#include <heddle/kernel_context.h>

#include "cuda/fault_slot.h"

namespace heddle::cuda_kernels {

class DataFault {
 public:
  DataFault();                                     // throws OutOfMemory if no page-locked memory is left
  FaultSlot* slot() const { return slot_.get(); }  // what kernels of this op are given
  // Once the work enqueued so far has run: calls `refuse`, which throws the error, if a kernel has reported one.
  void check(const KernelContext& context, std::function<void(const FaultSlot&)> refuse) const;

 private:
  std::shared_ptr<FaultSlot> slot_;
};

}  // namespace heddle::cuda_kernels
