// Who may use the memory of devices: host threads while they do the work of a device. Otherwise it is mapped without
// access, so that the host faults where it does on a real GPU. While any device works, all threads have access: a
// wrong access of the host then goes unseen. Streams that are stepped by the host leave no such gap.
//
// Compiled without instrumentation, so that ThreadSanitizer sees no order between the work of streams here.
#pragma once

#include <atomic>
#include <cstddef>

namespace heddle::emulated_gpu {

class SpinLock {
 public:
  void lock() noexcept;
  bool try_lock() noexcept { return !taken_.exchange(true, std::memory_order_acquire); }
  void unlock() noexcept { taken_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> taken_{false};
};

// While it lives its thread does the work of a device.
class DeviceAccess {
 public:
  DeviceAccess() noexcept;
  ~DeviceAccess();
  DeviceAccess(const DeviceAccess&) = delete;
  DeviceAccess& operator=(const DeviceAccess&) = delete;
  static bool here() noexcept;
};

void protect_devices(bool protect) noexcept;
// The first `bytes` of a device's memory exist from now on.
void set_mapped(int device, char* base, std::size_t bytes) noexcept;

// Installs the handler of faults, unless it is: it says what was accessed, and ends a kernel with an error. Called again
// for each kernel, since test frameworks install handlers of their own.
void catch_faults();

}  // namespace heddle::emulated_gpu
