// Streams and events on HostStream.
#include <algorithm>
#include <chrono>
#include <thread>

#include "runtime/access.h"
#include "runtime/locked_call.h"

namespace heddle::emulated_gpu {
namespace {

std::atomic<int> stepped_streams{0};
std::atomic<int> waiting{0};  // calls that wait for room in a queue

std::int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::vector<std::shared_ptr<CUstream_st>> stepped() {
  Runtime& all = runtime();
  const std::lock_guard guard(all.mutex);
  std::vector<std::shared_ptr<CUstream_st>> found;
  const auto add = [&](const std::shared_ptr<CUstream_st>& stream) {
    if (stream->stepped) found.push_back(stream);
  };
  for (const auto& [handle, stream] : all.streams) add(stream);
  for (const auto& [device, stream] : all.default_streams) add(stream);
  for (const auto& [stream, recording] : all.destroyed) add(stream);
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a->id < b->id; });
  return found;
}

// Does one step of a stream that the seed chooses. False if none has one, or another thread steps and !wait.
bool step_once(bool wait) {
  Runtime& all = runtime();
  std::unique_lock lock(all.step_mutex, std::defer_lock);
  if (wait) {
    lock.lock();
  } else if (!lock.try_lock()) {
    return false;
  }
  const auto streams = stepped();
  if (streams.empty()) return false;
  std::size_t first = 0;
  if (all.step_random != 0) {
    all.step_random = all.step_random * 6364136223846793005ULL + 1442695040888963407ULL;
    first = (all.step_random >> 33) % streams.size();
  }
  for (std::size_t i = 0; i < streams.size(); ++i) {
    if (streams[(first + i) % streams.size()]->work->step()) return true;
  }
  return false;
}

// Drops destroyed streams whose work is done.
void reap(Runtime& all) {
  std::erase_if(all.destroyed, [](const auto& one) { return one.second->done.load(); });
}

CUstream_st& default_stream(int device) {
  std::shared_ptr<CUstream_st>& stream = runtime().default_streams[device];
  if (!stream) {
    stream = make_stream(device, cudaStreamDefault, 0);
    stream->is_default = true;
  }
  return *stream;
}

// The default stream runs after all that was enqueued on blocking streams before, and those after it.
void order_with_default(CUstream_st& stream) {
  Runtime& all = runtime();
  if (stream.is_default) {
    for (auto& [handle, other] : all.streams) {
      const bool blocking = other->flags == cudaStreamDefault && other->device == stream.device;
      if (blocking && std::exchange(other->used, false)) wait_in_stream(stream, record(*other));
    }
  } else if (stream.flags == cudaStreamDefault) {
    const auto found = all.default_streams.find(stream.device);
    if (found != all.default_streams.end() && std::exchange(found->second->used, false)) {
      wait_in_stream(stream, record(*found->second));
    }
  }
  stream.used = true;
}

struct CountedStream : CUstream_st {
  CountedStream(CUstream_st&& made) : CUstream_st(std::move(made)) { stepped_streams += stepped; }
  ~CountedStream() { stepped_streams -= stepped; }
};

void destroy_stream(cudaStream_t handle) {
  Runtime& all = runtime();
  const std::lock_guard guard(all.mutex);
  const auto found = all.streams.find(handle);
  require(found != all.streams.end(), cudaErrorInvalidResourceHandle);
  CUstream_st& stream = *found->second;
  if (stream.capture) {
    stream.capture->valid = false;
    std::erase(stream.capture->streams, handle);
    if (stream.capture->origin == handle) std::erase(all.captures, stream.capture);
  }
  const int device = stream.device;
  const RecordingPtr last = record(stream);
  all.destroyed.emplace_back(std::move(found->second), last);
  all.streams.erase(found);
  reap(all);
  check_device(device);
}

cudaError_t create_stream(const char* name, cudaStream_t* made, unsigned flags, int priority) {
  return call(name, [&] {
    require(made && (flags == cudaStreamDefault || flags == cudaStreamNonBlocking), cudaErrorInvalidValue);
    const int device = current_device();
    Runtime& all = runtime();
    const std::lock_guard guard(all.mutex);
    reap(all);
    auto stream = make_stream(device, flags, std::clamp(priority, -5, 0));
    *made = stream.get();
    all.streams[stream.get()] = std::move(stream);
  });
}

// Waits for what `recorded` gives, which is called with the lock; then looks at the device's memory.
template <class F> void synchronize(int device, F recorded) {
  count_host_wait();
  RecordingPtr recording;
  {
    const std::lock_guard guard(runtime().mutex);
    recording = recorded();
  }
  if (recording) await(recording);
  look_for_problems(device);
  check_device(device);
}

}  // namespace

std::shared_ptr<CUstream_st> make_stream(int device, unsigned flags, int priority) {
  Runtime& all = runtime();
  const unsigned long long id = ++all.ids;
  const Settings& settings = all.settings;
  HostStreamOptions options{
      .seed = settings.seed * 1000 + id, .most_delay = settings.delay, .stepped = settings.stepped};
  auto work = std::make_unique<HostStream>(gpu(device), Lane::compute, options);
  return std::make_shared<CountedStream>(CUstream_st{.device = device,
                                                     .flags = flags,
                                                     .priority = priority,
                                                     .id = id,
                                                     .work = std::move(work),
                                                     .stepped = settings.stepped,
                                                     .queued = std::make_shared<std::atomic<int>>(0)});
}

CUstream_st& stream_of(cudaStream_t handle) {
  require(handle != cudaStreamPerThread, cudaErrorNotSupported);
  if (!handle || handle == cudaStreamLegacy) return default_stream(current_device());
  CUstream_st& stream = stream_even_if_failed(handle);
  check_device(stream.device);
  return stream;
}

CUstream_st& stream_even_if_failed(cudaStream_t handle) {
  const auto found = runtime().streams.find(handle);
  require(found != runtime().streams.end(), cudaErrorInvalidResourceHandle);
  return *found->second;
}

CUevent_st& event_of(cudaEvent_t handle) {
  const auto found = runtime().events.find(handle);
  require(found != runtime().events.end(), cudaErrorInvalidResourceHandle);
  check_device(found->second->device);
  return *found->second;
}

void enqueue(CUstream_st& stream, std::function<void()> work) {
  order_with_default(stream);
  stream.last.reset();
  stream.idle = false;
  if (runtime().settings.queue > 0) {
    ++*stream.queued;
    work = [done = std::move(work), queued = stream.queued] {
      done();
      --*queued;
    };
  }
  stream.work->enqueue(std::move(work));
}

void await_room(cudaStream_t handle) {
  std::shared_ptr<std::atomic<int>> queued;
  int most = 0;
  {
    const std::lock_guard guard(runtime().mutex);
    const auto found = runtime().streams.find(handle);
    most = runtime().settings.queue;
    if (most == 0 || found == runtime().streams.end() || found->second->capture) return;
    queued = found->second->queued;
  }
  if (*queued < most) return;
  ++waiting;
  while (*queued >= most) {
    if (stepped_streams == 0 || !step_once(true)) std::this_thread::yield();
  }
  --waiting;
}

int waiting_for_room() { return waiting; }

void submit(CUstream_st& stream, Operation operation) {
  if (stream.capture) return add_to_capture(stream, std::move(operation));
  enqueue(stream, [kept = std::make_shared<const Operation>(std::move(operation)), device = stream.device,
                   since = failures()] { run(*kept, device, since); });
}

RecordingPtr record(CUstream_st& stream, bool with_time) {
  auto recording = std::make_shared<Recording>();
  recording->event = stream.work->make_event();
  if (with_time) stream.work->enqueue([recording] { recording->nanoseconds = now(); });
  stream.work->record(*recording->event);
  recording->generation = recording->event->generation();
  stream.work->notify(*recording->event, recording->generation, [recording](const std::exception_ptr&) {
    recording->done = true;
    recording->done.notify_all();
  });
  stream.last = recording;
  stream.idle = false;
  return recording;
}

RecordingPtr last_of(CUstream_st& stream) {
  return stream.idle || stream.last ? stream.last : record(stream);
}

void wait_in_stream(CUstream_st& stream, const RecordingPtr& recording) {
  if (recording->done) return;
  stream.work->wait(*recording->event, recording->generation);
  stream.last.reset();
  stream.idle = false;
}

void await(const RecordingPtr& recording) {
  while (!recording->done) {
    if (stepped_streams == 0) {
      recording->done.wait(false);
    } else if (!step_once(true)) {
      std::this_thread::yield();
    }
  }
}

bool ask(const RecordingPtr& recording) {
  if (!recording->done && stepped_streams > 0) step_once(false);
  return recording->done;
}

void await_device(int device) {
  Runtime& all = runtime();
  std::vector<RecordingPtr> last;
  {
    const std::lock_guard guard(all.mutex);
    for (auto& [handle, stream] : all.streams) {
      if (stream->device == device) last.push_back(last_of(*stream));
    }
    if (const auto found = all.default_streams.find(device); found != all.default_streams.end()) {
      last.push_back(last_of(*found->second));
    }
    for (auto& [stream, recording] : all.destroyed) {
      if (stream->device == device) last.push_back(recording);
    }
  }
  for (const RecordingPtr& recording : last) {
    if (recording) await(recording);
  }
  const std::lock_guard guard(all.mutex);
  reap(all);
}

void look_for_problems(int device) {
  std::vector<std::string> wrong;
  {
    const DeviceAccess access;
    if (!has_failed(device)) wrong = check_blocks(device);
  }
  for (const std::string& text : wrong) fail_device(device, cudaErrorIllegalAddress, text.c_str());
}

void check_memory() {
  for (int device = 0; device < settings().devices; ++device) look_for_problems(device);
}

std::size_t live_objects() {
  Runtime& all = runtime();
  const std::lock_guard guard(all.mutex);
  return all.streams.size() + all.events.size() + all.graphs.size() + all.executables.size() +
         all.pools.size() - all.default_pools.size();
}

}  // namespace heddle::emulated_gpu

using namespace heddle::emulated_gpu;

extern "C" {

cudaError_t cudaStreamCreate(cudaStream_t* made) {
  return create_stream("cudaStreamCreate", made, cudaStreamDefault, 0);
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* made, unsigned flags) {
  return create_stream("cudaStreamCreateWithFlags", made, flags, 0);
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* made, unsigned flags, int priority) {
  return create_stream("cudaStreamCreateWithPriority", made, flags, priority);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return release_call("cudaStreamDestroy", [&] { destroy_stream(stream); });
}

cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  return locked_call("cudaStreamGetPriority", [&] { *priority = stream_of(stream).priority; });
}
cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned* flags) {
  return locked_call("cudaStreamGetFlags", [&] { *flags = stream_of(stream).flags; });
}
cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long* id) {
  return locked_call("cudaStreamGetId", [&] { *id = stream_of(stream).id; });
}
cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* device) {
  return locked_call("cudaStreamGetDevice", [&] { *device = stream_of(stream).device; });
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  return call("cudaStreamSynchronize", [&] {
    int device = 0;
    {
      const std::lock_guard guard(runtime().mutex);
      CUstream_st& stream = stream_of(handle);
      refuse_in_capture(stream);
      device = stream.device;
    }
    synchronize(device, [&] {
      CUstream_st& stream = stream_of(handle);
      order_with_default(stream);
      return last_of(stream);
    });
  });
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  return call("cudaStreamQuery", [&] {
    RecordingPtr recording;
    int device = 0;
    {
      const std::lock_guard guard(runtime().mutex);
      CUstream_st& stream = stream_of(handle);
      refuse_in_capture(stream);
      device = stream.device;
      recording = last_of(stream);
    }
    const bool done = !recording || ask(recording);
    check_device(device);
    require(done, cudaErrorNotReady);
  });
}

cudaError_t cudaDeviceSynchronize() {
  return call("cudaDeviceSynchronize", [] {
    const int device = current_device();
    refuse_unsafe_call_unlocked();
    await_device(device);
    synchronize(device, [] { return nullptr; });
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t awaited, unsigned flags) {
  return call("cudaStreamWaitEvent", [&] {
    require(flags == 0, cudaErrorInvalidValue);
    const std::lock_guard guard(runtime().mutex);
    CUstream_st& stream = stream_of(handle);
    CUevent_st& event = event_of(awaited);
    if (event.capture || stream.capture) return join_capture(stream, event);
    if (!event.last) return;
    order_with_default(stream);
    wait_in_stream(stream, event.last);
  });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t fn, void* data) {
  return call("cudaLaunchHostFunc", [&] {
    require(fn != nullptr, cudaErrorInvalidValue);
    await_room(stream);
    const std::lock_guard guard(runtime().mutex);
    submit(stream_of(stream), {HostCall{fn, data}});
  });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* made, unsigned flags) {
  return call("cudaEventCreateWithFlags", [&] {
    constexpr unsigned known = cudaEventBlockingSync | cudaEventDisableTiming;
    require(made && (flags & ~known) == 0, cudaErrorInvalidValue);
    const int device = current_device();
    const std::lock_guard guard(runtime().mutex);
    auto event = std::make_unique<CUevent_st>(CUevent_st{.device = device, .flags = flags});
    *made = event.get();
    runtime().events[event.get()] = std::move(event);
  });
}
cudaError_t cudaEventCreate(cudaEvent_t* made) { return cudaEventCreateWithFlags(made, cudaEventDefault); }

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return locked_release_call("cudaEventDestroy", [&] {
    const auto found = runtime().events.find(event);
    require(found != runtime().events.end(), cudaErrorInvalidResourceHandle);
    const int device = found->second->device;
    runtime().events.erase(found);
    check_device(device);
  });
}

cudaError_t cudaEventRecord(cudaEvent_t recorded, cudaStream_t handle) {
  return locked_call("cudaEventRecord", [&] {
    CUstream_st& stream = stream_of(handle);
    CUevent_st& event = event_of(recorded);
    require(event.device == stream.device, cudaErrorInvalidResourceHandle);
    event.capture = stream.capture;
    event.nodes = stream.tail;
    if (stream.capture) return;
    order_with_default(stream);
    event.last = record(stream, (event.flags & cudaEventDisableTiming) == 0);
  });
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  return flags == 0 ? cudaEventRecord(event, stream)
                    : call("cudaEventRecordWithFlags", [] { throw Failure{cudaErrorNotSupported}; });
}

cudaError_t cudaEventQuery(cudaEvent_t asked) {
  return call("cudaEventQuery", [&] {
    RecordingPtr recording;
    int device = 0;
    {
      const std::lock_guard guard(runtime().mutex);
      CUevent_st& event = event_of(asked);
      require(!event.capture, cudaErrorCapturedEvent);
      refuse_unsafe_call();
      recording = event.last;
      device = event.device;
    }
    const bool done = !recording || ask(recording);
    check_device(device);
    require(done, cudaErrorNotReady);
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t awaited) {
  return call("cudaEventSynchronize", [&] {
    int device = 0;
    {
      const std::lock_guard guard(runtime().mutex);
      CUevent_st& event = event_of(awaited);
      require(!event.capture, cudaErrorCapturedEvent);
      refuse_unsafe_call();
      device = event.device;
    }
    synchronize(device, [&] { return event_of(awaited).last; });
  });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t first, cudaEvent_t second) {
  return locked_call("cudaEventElapsedTime", [&] {
    const CUevent_st& begin = event_of(first);
    const CUevent_st& end = event_of(second);
    const bool timed = ((begin.flags | end.flags) & cudaEventDisableTiming) == 0;
    require(milliseconds, cudaErrorInvalidValue);
    require(timed && begin.last && end.last, cudaErrorInvalidResourceHandle);
    require(begin.last->done && end.last->done, cudaErrorNotReady);
    *milliseconds = static_cast<float>(end.last->nanoseconds - begin.last->nanoseconds) * 1e-6f;
  });
}

}  // extern "C"
