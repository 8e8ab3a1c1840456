#include <cuda_runtime_api.h>
#include <string>

#include <heddle/error.h>
#include <heddle/gpu_event.h>

#include "stream/cuda/status.h"

namespace heddle {

using detail::succeeds;

namespace {

void check(cudaError_t status, const char* call, Device device) {
  if (!succeeds(status))
    throw Error(std::string(call) + " on " + device.to_string() + ": " + cudaGetErrorString(status));
}

// Makes a GPU the calling thread's current one while it lives: the thread may be another library's.
class Current {
 public:
  explicit Current(Device device) {
    check(cudaGetDevice(&before_), "cudaGetDevice", device);
    if (before_ == device.index) return;
    check(cudaSetDevice(device.index), "cudaSetDevice", device);
    changed_ = true;
  }
  ~Current() {
    if (changed_) succeeds(cudaSetDevice(before_));
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  int before_ = 0;
  bool changed_ = false;
};

}  // namespace

GpuEvent::GpuEvent(Device device) : device_(device) {
  const Current current(device);
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags", device);
  event_ = event;
}
GpuEvent::~GpuEvent() { succeeds(cudaEventDestroy(static_cast<cudaEvent_t>(event_))); }

void GpuEvent::record(void* stream) {
  const Current current(device_);
  check(cudaEventRecord(static_cast<cudaEvent_t>(event_), static_cast<cudaStream_t>(stream)),
        "cudaEventRecord", device_);
}

void GpuEvent::hold(void* stream) const {
  const Current current(device_);
  check(cudaStreamWaitEvent(static_cast<cudaStream_t>(stream), static_cast<cudaEvent_t>(event_), 0),
        "cudaStreamWaitEvent", device_);
}

Device gpu_of_memory(const void* memory) {
  cudaPointerAttributes attributes{};
  if (!succeeds(cudaPointerGetAttributes(&attributes, memory)) ||
      (attributes.type != cudaMemoryTypeDevice && attributes.type != cudaMemoryTypeManaged))
    throw InvalidArgument("the memory is no GPU's");
  return gpu(attributes.device);
}

}  // namespace heddle
