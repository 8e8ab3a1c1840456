// Streams and events of CUDA. Comments are about errors; otherwise each function makes the CUDA call of its name.
//
// After a kernel has failed, CUDA answers every call on that GPU with the same error until the process ends. So all ops
// that were not known to be done fail, and all later ones. No wrong value is taken for a right one, but it is not known
// which op has failed first: CUDA_LAUNCH_BLOCKING=1 finds it.
#include <cuda_runtime_api.h>
#include <list>
#include <mutex>
#include <string>
#include <vector>

#include <heddle/error.h>

#include "stream/cuda/recorder.h"
#include "stream/cuda/status.h"
#include "stream/cuda/thread_state.h"
#include "stream/gpu.h"
#include "stream/stream_work.h"

namespace heddle {

using detail::succeeds;

namespace {

Error error_of(cudaError_t status, const char* call, Device device) {
  return Error(std::string(call) + " on " + device.to_string() + ": " + cudaGetErrorString(status));
}

void check(cudaError_t status, const char* call, Device device) {
  if (!succeeds(status)) throw error_of(status, call, device);
}

// The host functions that were enqueued between two recordings, which CUDA calls in stream order, and their first
// error.
class Section {
 public:
  void fail(std::exception_ptr error) {
    std::lock_guard guard(mutex_);
    if (!error_) error_ = std::move(error);
  }
  // Once the section's work has run: its first error. Calls its checks.
  std::exception_ptr error() {
    std::lock_guard guard(mutex_);
    for (const std::function<void()>& check : std::exchange(checks_, {})) {
      try {
        check();
      } catch (...) {
        if (!error_) error_ = std::current_exception();
      }
    }
    return error_;
  }
  bool has_calls() const { return !calls_.empty(); }
  void add_check(std::function<void()> check) {
    std::lock_guard guard(mutex_);
    checks_.push_back(std::move(check));
  }
  void launch(cudaStream_t stream, std::function<void()> fn, Device device) {
    calls_.push_back({this, std::move(fn)});
    check(cudaLaunchHostFunc(stream, run, &calls_.back()), "cudaLaunchHostFunc", device);
  }
  // Once CUDA has called all functions: ends what they hold. Not in CUDA's callback, where an array that ends could not free
  // its memory.
  void drop_calls() {
    std::list<Call> called;
    const std::lock_guard guard(mutex_);
    called.swap(calls_);
  }

 private:
  struct Call {
    Section* section;
    std::function<void()> fn;
  };
  static void CUDART_CB run(void* call) {
    const detail::InStreamWork inside;
    auto& [section, fn] = *static_cast<Call*>(call);
    try {
      fn();
    } catch (...) {
      section->fail(std::current_exception());
    }
  }

  std::mutex mutex_;  // guards error_, checks_ and the end of calls_; checks are called while it is held
  std::exception_ptr error_;
  std::vector<std::function<void()>> checks_;
  std::list<Call> calls_;  // a list, since CUDA holds the addresses of its elements; most sections have none
};

class CudaEvent final : public Event {
 public:
  explicit CudaEvent(Device device) : device_(device) {
    check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreateWithFlags", device);
  }
  ~CudaEvent() override {
    const detail::CurrentDevice scope(device_.index);
    succeeds(cudaEventDestroy(event_));
  }
  cudaEvent_t handle() const { return event_; }

  // Keeps the section that this recording ends until the next recording of the event. By then the section's
  // functions have been called.
  void recorded(std::unique_ptr<Section> section) {
    section_ = std::move(section);
    next_generation();
  }
  std::exception_ptr error() const { return section_->error(); }
  void drop_calls() const { section_->drop_calls(); }

 private:
  const Device device_;
  cudaEvent_t event_ = nullptr;
  std::unique_ptr<Section> section_;
};

class CudaStream final : public Stream {
 public:
  CudaStream(Device device, Lane lane) : Stream(device, lane), section_(std::make_unique<Section>()) {
    begin();
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags", device);
    detail::gpu_stream_begins(stream_, device.index);
  }
  ~CudaStream() override {
    const detail::CurrentDevice scope(device().index);
    succeeds(cudaStreamSynchronize(stream_));
    detail::gpu_stream_ends(stream_);
    succeeds(cudaStreamDestroy(stream_));
  }

  void enqueue(std::function<void()> fn) override {
    if (!fn) throw InvalidArgument("enqueue: the function is empty");
    section_->launch(stream_, std::move(fn), device());
  }

  void check_when_done(std::function<void()> fn) override { section_->add_check(std::move(fn)); }

  void copy(void* to, const void* from, std::size_t bytes) override {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_), "cudaMemcpyAsync", device());
  }

  void* native() const override { return stream_; }

  void begin() override {
    check(cudaSetDevice(device().index), "cudaSetDevice", device());
    detail::device_in_use = device().index;
    cudaGetLastError();  // drops an error of an earlier call on this thread, which is not this op's
  }

  std::shared_ptr<detail::WorkRecorder> record_work() override { return detail::record_cuda(*this); }
  void replay(detail::RecordedWork& work) override { detail::launch_recorded(work, stream_, device()); }

  std::unique_ptr<Event> make_event() override {
    check(cudaSetDevice(device().index), "cudaSetDevice", device());
    return std::make_unique<CudaEvent>(device());
  }

  void record(Event& event) override {
    // cudaGetLastError is the only call that reports a kernel which could not be launched.
    if (const cudaError_t launch = cudaGetLastError(); launch != cudaSuccess) {
      section_->fail(std::make_exception_ptr(error_of(launch, "a launch", device())));
    }
    auto& recorded = static_cast<CudaEvent&>(event);
    auto next = std::make_unique<Section>();
    if (const cudaError_t status = cudaEventRecord(recorded.handle(), stream_); status != cudaSuccess) {
      succeeds(cudaStreamSynchronize(stream_));
      next.swap(section_);
      if (next->has_calls()) lost_.push_back(std::move(next));
      throw error_of(status, "cudaEventRecord", device());
    }
    recorded.recorded(std::exchange(section_, std::move(next)));
  }

  bool can_wait_for(const Stream& other) const override {
    return dynamic_cast<const CudaStream*>(&other) != nullptr;
  }

  void wait(Event& event, std::uint64_t generation) override {
    // If the event is recorded again before the next call, this stream waits for longer than necessary. That
    // causes no deadlock: all work that the event stands for is enqueued already, so none of it waits for this
    // stream's next work.
    if (generation < event.generation()) return;
    const cudaEvent_t handle = static_cast<CudaEvent&>(event).handle();
    if (succeeds(cudaStreamWaitEvent(stream_, handle, 0))) return;
    // The host waits instead. If that fails too, the GPU of the event or that of this stream is lost. The first has ended
    // its work with that: ops of this stream that do not read what it wrote go on. If it is the second, every call that
    // follows reports it.
    succeeds(cudaEventSynchronize(handle));
  }

  bool poll(Event& event, std::uint64_t generation, std::exception_ptr& error) noexcept override {
    if (generation < event.generation()) return true;
    // The thread is the engine's, or issues an op (GpuCalls). Its state is set when it has to change alone.
    thread_local constinit int current = -1;
    if (current < 0) {
      cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;  // see OutsideCaptures
      succeeds(cudaThreadExchangeStreamCaptureMode(&mode));
    }
    if (std::exchange(current, device().index) != device().index) succeeds(cudaSetDevice(device().index));
    const auto& asked = static_cast<CudaEvent&>(event);
    const cudaError_t status = cudaEventQuery(asked.handle());
    if (!succeeds(status)) {
      // The second one is a refusal for the sake of a capture.
      if (status == cudaErrorNotReady || status == cudaErrorStreamCaptureUnsupported) return false;
      // Unless the GPU is lost, the work may still run, and use memory that is freed when the op is done.
      succeeds(cudaEventSynchronize(asked.handle()));
    }
    if (status == cudaSuccess) asked.drop_calls();
    error = asked.error();
    if (!error && status != cudaSuccess) {
      error = std::make_exception_ptr(error_of(status, "work enqueued", device()));
    }
    return true;
  }

 private:
  cudaStream_t stream_ = nullptr;
  std::unique_ptr<Section> section_;  // host functions enqueued since the last recording
  // Sections with functions that could not be recorded: after that error CUDA may or may not call their functions.
  std::vector<std::unique_ptr<Section>> lost_;
};

}  // namespace

int gpu_count() {
  if (detail::forked_with_cuda())
    throw Error(
        "GPUs cannot be used in a process that was forked after its parent has used one: start it anew "
        "(in Python with multiprocessing's spawn)");
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaSuccess) return count;
  cudaGetLastError();
  int driver = 0;  // stays 0 without a driver: then the machine has no GPU
  const bool no_driver = cudaDriverGetVersion(&driver) == cudaSuccess && driver == 0;
  if (status == cudaErrorNoDevice || (status == cudaErrorInsufficientDriver && no_driver)) return 0;
  throw Error(std::string("cudaGetDeviceCount: ") + cudaGetErrorString(status));
}

namespace detail {

GpuCalls::GpuCalls(Device device) {
  if (device.kind != DeviceKind::cuda) return;
  device_before_ = current_device();
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  if (succeeds(cudaThreadExchangeStreamCaptureMode(&mode))) capture_mode_before_ = mode;
}
GpuCalls::~GpuCalls() {
  restore_device(device_before_);
  if (capture_mode_before_ < 0) return;
  auto mode = static_cast<cudaStreamCaptureMode>(capture_mode_before_);
  succeeds(cudaThreadExchangeStreamCaptureMode(&mode));
}

std::unique_ptr<Stream> make_gpu_stream(Device device, Lane lane) {
  const GpuCalls scope(device);
  if (const int count = gpu_count(); device.index >= count) {
    throw Error(device.to_string() + ": this machine has " + std::to_string(count) +
                (count == 1 ? " GPU" : " GPUs"));
  }
  return std::make_unique<CudaStream>(device, lane);
}

}  // namespace detail
}  // namespace heddle
