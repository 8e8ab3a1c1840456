// How a thread of a kernel reports a value that it refuses (data_fault.h).
#pragma once

#include "cuda/fault_slot.h"
#include "gpu/kernel.h"

namespace heddle::cuda_kernels {

HEDDLE_DEVICE inline void report(on_gpu::Thread& thread, FaultSlot* slot, long long place,
                                 unsigned long long value, int kind = 0, unsigned long long other = 0) {
  constexpr on_gpu::Order kLocks = on_gpu::Order::acq_rel;
  // The place only falls. So a thread that is behind an earlier report waits for the lock no longer: data may hold millions of
  // bad values, and the slot is in the memory of the CPU.
  while (place < on_gpu::atomic_load(&slot->place)) {
    if (on_gpu::atomic_exchange<kLocks>(&slot->lock, 1) != 0) {
      thread.pause();
      continue;
    }
    if (place < on_gpu::atomic_load(&slot->place)) {
      on_gpu::atomic_store(&slot->kind, kind);
      on_gpu::atomic_store(&slot->place, place);
      on_gpu::atomic_store(&slot->value, value);
      on_gpu::atomic_store(&slot->other, other);
      on_gpu::atomic_store(&slot->found, 1);
    }
    on_gpu::atomic_exchange<kLocks>(&slot->lock, 0);
    return;
  }
}

}  // namespace heddle::cuda_kernels
