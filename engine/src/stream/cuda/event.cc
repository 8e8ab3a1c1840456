#include <cuda_runtime_api.h>
#include <string>

#include <heddle/error.h>
#include <heddle/gpu_event.h>

#include "stream/cuda/status.h"
#include "stream/cuda/thread_state.h"

namespace heddle {

using detail::succeeds;

namespace {

void check(cudaError_t status, const char* call, Device device) {
  if (!succeeds(status))
    throw Error(std::string(call) + " on " + device.to_string() + ": " + cudaGetErrorString(status));
}

// Makes the event's GPU the current one while it lives: the thread may be another library's.
class Current {
 public:
  explicit Current(Device device) : scope_(device.index) { check(scope_.status(), "cudaSetDevice", device); }

 private:
  const detail::CurrentDevice scope_;
};

}  // namespace

GpuEvent::GpuEvent(Device device) : device_(device) {
  const Current current(device);
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags", device);
  event_ = event;
}
GpuEvent::~GpuEvent() {
  const detail::CurrentDevice scope(device_.index);
  succeeds(cudaEventDestroy(static_cast<cudaEvent_t>(event_)));
}

void GpuEvent::record(void* stream) {
  const Current current(device_);
  check(cudaEventRecord(static_cast<cudaEvent_t>(event_), static_cast<cudaStream_t>(stream)),
        "cudaEventRecord", device_);
}

bool GpuEvent::try_record(void* stream) noexcept {
  const detail::CurrentDevice scope(device_.index);
  const auto on = static_cast<cudaStream_t>(stream);
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  return succeeds(scope.status()) && succeeds(cudaStreamIsCapturing(on, &capture)) &&
         capture == cudaStreamCaptureStatusNone &&
         succeeds(cudaEventRecord(static_cast<cudaEvent_t>(event_), on));
}

void GpuEvent::wait() const {
  const Current current(device_);
  check(cudaEventSynchronize(static_cast<cudaEvent_t>(event_)), "cudaEventSynchronize", device_);
}

void GpuEvent::hold(void* stream) const {
  const Current current(device_);
  check(cudaStreamWaitEvent(static_cast<cudaStream_t>(stream), static_cast<cudaEvent_t>(event_), 0),
        "cudaStreamWaitEvent", device_);
}

std::optional<Device> gpu_with(const void* memory) {
  const detail::DeviceInUse scope;
  cudaPointerAttributes attributes{};
  if (!succeeds(cudaPointerGetAttributes(&attributes, memory)) ||
      (attributes.type != cudaMemoryTypeDevice && attributes.type != cudaMemoryTypeManaged))
    return std::nullopt;
  return gpu(attributes.device);
}

Device gpu_of_memory(const void* memory) {
  const std::optional<Device> found = gpu_with(memory);
  if (!found) throw InvalidArgument("the memory is no GPU's");
  return *found;
}

}  // namespace heddle
