// What CUDA keeps for each thread: its current GPU, and what captures refuse. Threads of the program are left as they were, and no context is made on a
// GPU that the program does not use: it takes hundreds of megabytes there. CUDA makes one on the GPU that becomes current, and on
// the current one, which is at first GPU 0, in nearly every call.
#pragma once

#include <atomic>
#include <cstdint>
#include <cuda_runtime_api.h>

#include "base/fork.h"
#include "stream/cuda/status.h"

namespace heddle::detail {

// Whether the process was forked after it has used CUDA: then no call of CUDA is allowed in it. Call it before the first one.
inline bool forked_with_cuda() noexcept {
  constexpr std::uint32_t kNever = UINT32_MAX;
  static constinit std::atomic<std::uint32_t> first_use{kNever};
  std::uint32_t first = kNever;
  return !first_use.compare_exchange_strong(first, fork_generation()) && first != fork_generation();
}

// Whether the process has a context on a GPU. false if the driver does not say.
inline bool has_context(int device) noexcept {
  using GetState = int (*)(int device, unsigned* flags, int* active);
  static std::atomic<GetState> get_state{nullptr};
  GetState get = get_state;
  if (!get) {
    void* found = nullptr;
    constexpr const char* name = "cuDevicePrimaryCtxGetState";
#if CUDART_VERSION >= 12050
    succeeds(cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, nullptr));
#else
    succeeds(cudaGetDriverEntryPoint(name, &found, cudaEnableDefault));
#endif
    if (!found) return false;
    get_state = get = reinterpret_cast<GetState>(found);
  }
  unsigned flags = 0;
  int active = 0;
  return get(device, &flags, &active) == 0 && active != 0;
}

// The calling thread's current GPU; -1 if CUDA does not say.
inline int current_device() noexcept {
  int device = -1;
  return succeeds(cudaGetDevice(&device)) ? device : -1;
}

// Makes the thread's current GPU what it was, unless that has no context.
inline void restore_device(int before) noexcept {
  if (before >= 0 && current_device() != before && has_context(before)) succeeds(cudaSetDevice(before));
}

// Leaves the calling thread the current GPU that it has.
class KeptDevice {
 public:
  KeptDevice() noexcept : before_(current_device()) {}
  ~KeptDevice() { restore_device(before_); }
  KeptDevice(const KeptDevice&) = delete;
  KeptDevice& operator=(const KeptDevice&) = delete;

 private:
  const int before_;
};

// The thread's calls are no part of what another library captures, and do not break its capture, while it lives. Otherwise CUDA
// refuses some calls of all threads during a capture, such as queries of events, and fails the capture.
class OutsideCaptures {
 public:
  OutsideCaptures() noexcept : exchanged_(succeeds(cudaThreadExchangeStreamCaptureMode(&mode_))) {}
  ~OutsideCaptures() {
    if (exchanged_) succeeds(cudaThreadExchangeStreamCaptureMode(&mode_));
  }
  OutsideCaptures(const OutsideCaptures&) = delete;
  OutsideCaptures& operator=(const OutsideCaptures&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
  const bool exchanged_;
};

// Makes a GPU the thread's current one while it lives, outside of captures.
class CurrentDevice {
 public:
  explicit CurrentDevice(int device) noexcept : status_(cudaSetDevice(device)) { succeeds(status_); }
  cudaError_t status() const { return status_; }

 private:
  const OutsideCaptures outside_;
  const KeptDevice kept_;
  const cudaError_t status_;
};

// The GPU on which the engine has worked last; -1 before.
inline std::atomic<int> device_in_use{-1};

// Makes that GPU, if there is one, the thread's current one while it lives, outside of captures: for calls that are about no
// GPU, but need a context.
class DeviceInUse {
 public:
  DeviceInUse() noexcept {
    if (const int used = device_in_use; used >= 0) succeeds(cudaSetDevice(used));
  }

 private:
  const OutsideCaptures outside_;
  const KeptDevice kept_;
};

}  // namespace heddle::detail
