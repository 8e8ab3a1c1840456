// What every function of the runtime begins and ends with: counting, injected errors, the thread's last error.
#pragma once

#include <cstdint>
#include <cuda_runtime_api.h>
#include <new>

namespace heddle::emulated_gpu {

// Thrown inside of a call.
struct Failure {
  cudaError_t error;
};

inline void require(bool holds, cudaError_t error) {
  if (!holds) throw Failure{error};
}

cudaError_t begin_call(const char* name) noexcept;  // counts the call; the error that was injected
cudaError_t end_call(cudaError_t status) noexcept;  // keeps an error as the thread's last

template <class F> cudaError_t attempt(F& body) noexcept {
  try {
    body();
    return cudaSuccess;
  } catch (const Failure& failure) {
    return failure.error;
  } catch (const std::bad_alloc&) {
    return cudaErrorMemoryAllocation;
  } catch (...) {
    return cudaErrorUnknown;
  }
}

template <class F> cudaError_t call(const char* name, F body) noexcept {
  const cudaError_t injected = begin_call(name);
  return end_call(injected != cudaSuccess ? injected : attempt(body));
}

// For calls that release something: they do so also if they fail.
template <class F> cudaError_t release_call(const char* name, F body) noexcept {
  const cudaError_t injected = begin_call(name);
  const cudaError_t status = attempt(body);
  return end_call(injected != cudaSuccess ? injected : status);
}

// A call that makes the host wait for a device.
void count_host_wait() noexcept;

// Waits while a stream's queue is full (Settings::queue). Without Runtime::mutex.
void await_room(cudaStream_t handle);

// The calling thread's device. Throws Failure if the device has a sticky error.
int current_device();
int current_device_even_if_failed() noexcept;
void set_current_device(int device);
void make_context(int device) noexcept;
void check_device(int device);        // throws Failure if it has a sticky error
void check_device_index(int device);  // throws Failure if there is none

// How often a device has failed so far. Work that was enqueued before a failure of its device is dropped for ever.
std::uint64_t failures() noexcept;
bool has_failed_since(int device, std::uint64_t failures) noexcept;

// Makes the device fail for good: prints and keeps the text. Not to be called with a lock held.
void fail_device(int device, cudaError_t error, const char* text);

// While it lives, a device works on memory. An error that lasts is reported when no device works any more that has it: the
// host may free the memory then.
class Working {
 public:
  explicit Working(int device) noexcept;
  ~Working();
  Working(const Working&) = delete;
  Working& operator=(const Working&) = delete;

 private:
  const int device_;
};

// While it lives, its thread runs a function of the host in a stream, which may not call CUDA.
class InHostFunction {
 public:
  InHostFunction() noexcept;
  ~InHostFunction();
  InHostFunction(const InHostFunction&) = delete;
  InHostFunction& operator=(const InHostFunction&) = delete;
};

}  // namespace heddle::emulated_gpu
