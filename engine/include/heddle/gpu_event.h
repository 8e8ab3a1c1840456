// Points in the work of CUDA's streams, by which streams of other libraries and those of an engine are put in order without
// a wait of the host. A build without CUDA has none: the constructor throws Error.
#pragma once

#include <optional>

#include <heddle/device.h>

namespace heddle {

// Streams are cudaStream_t of the event's GPU; 1: the legacy default stream, 2: the default stream of the calling thread. The
// functions leave the thread's current GPU as it is. They throw Error if CUDA fails.
class GpuEvent {
 public:
  explicit GpuEvent(Device device);
  ~GpuEvent();
  GpuEvent(const GpuEvent&) = delete;
  GpuEvent& operator=(const GpuEvent&) = delete;

  void record(void* stream);  // the point is behind the work that the stream has now
  // Records as record() does, and returns true; false if the stream is being captured or does not exist any more.
  bool try_record(void* stream) noexcept;
  void hold(void* stream) const;  // work that is enqueued on the stream from now on runs after the point
  void wait() const;              // blocks until the work before the point has run

 private:
  const Device device_;
  void* event_ = nullptr;
};

// The GPU whose memory this is; nullopt if it is no GPU's.
std::optional<Device> gpu_with(const void* memory);
// The same, which throws InvalidArgument if it is no GPU's.
Device gpu_of_memory(const void* memory);

}  // namespace heddle
