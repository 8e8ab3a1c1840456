// Errors that data cause, such as an index out of range: kernels report where they are, and the op fails with the CPU's
// message once its work has run. The host does not wait.
//
//   const DataFault fault(context);
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
  // Throws OutOfMemory if no page-locked memory is left. The context is that of the op, and outlives the object.
  explicit DataFault(const KernelContext& context);
  // Of an op that has thrown before check(): the slot stays until the kernels that were enqueued have run.
  ~DataFault();
  DataFault(const DataFault&) = delete;
  DataFault& operator=(const DataFault&) = delete;
  FaultSlot* slot() const { return slot_.get(); }  // what kernels of this op are given
  // Once the work enqueued so far has run: calls `refuse`, which throws the error, if a kernel has reported one.
  void check(const KernelContext& context, std::function<void(const FaultSlot&)> refuse) const;

 private:
  const KernelContext& context_;
  std::shared_ptr<FaultSlot> slot_;
  mutable bool checked_ = false;
};

}  // namespace heddle::cuda_kernels
