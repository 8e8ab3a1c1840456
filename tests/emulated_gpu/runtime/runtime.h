// The state of the runtime: the objects behind CUDA's handles.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include <heddle/host_stream.h>

#include "emulated_gpu.h"
#include "runtime/call.h"
#include "runtime/memory.h"
#include "runtime/operation.h"

namespace heddle::emulated_gpu {

// One recording of an event. Other streams may wait for it, and the host.
struct Recording {
  std::unique_ptr<Event> event;
  std::uint64_t generation = 0;
  std::atomic<bool> done{false};
  std::atomic<std::int64_t> nanoseconds{0};  // when the stream came to it
};
using RecordingPtr = std::shared_ptr<Recording>;

// A capture of a stream, and of those that have joined it by waiting for its events.
struct Capture {
  cudaStream_t origin;
  cudaStreamCaptureMode mode;
  std::uint64_t thread;  // of the call that began it
  std::unique_ptr<CUgraph_st> graph;
  std::vector<cudaStream_t> streams{};
  bool valid = true;
  unsigned long long id = 0;
};

struct Pool {
  int device;
  std::uint64_t threshold = 0, used_high = 0, reserved_high = 0;
};

struct Pinned {
  std::size_t bytes;
  unsigned flags;
  bool registered;  // by cudaHostRegister
};

struct Runtime {
  // Guards all below and the objects behind handles; held by every call, but not while it waits. Work of streams runs
  // without it.
  std::mutex mutex;
  Settings settings;
  std::map<cudaStream_t, std::shared_ptr<CUstream_st>> streams{};
  std::map<int, std::shared_ptr<CUstream_st>> default_streams{};
  std::vector<std::pair<std::shared_ptr<CUstream_st>, RecordingPtr>>
      destroyed{};  // streams that have work left
  std::map<cudaEvent_t, std::unique_ptr<CUevent_st>> events{};
  std::map<cudaGraph_t, std::unique_ptr<CUgraph_st>> graphs{};
  std::map<cudaGraphExec_t, std::unique_ptr<CUgraphExec_st>> executables{};
  std::map<cudaMemPool_t, std::unique_ptr<Pool>> pools{};
  std::map<int, cudaMemPool_t> default_pools{}, current_pools{};
  std::map<const char*, Pinned> pinned{};
  std::map<std::pair<const void*, int>, int> shared_limits{};  // dynamic; of a kernel, on a device
  std::vector<std::shared_ptr<Capture>> captures{};
  unsigned peers[kMostDevices]{};  // by device: a bit for each device whose memory its kernels may use
  unsigned long long ids = 0;
  std::uint64_t graph_launches = 0;
  std::mutex step_mutex;  // held by the thread that steps streams; guards step_random
  std::uint64_t step_random = 0;
};

Runtime& runtime();

// The functions below are called with Runtime::mutex held, unless they say otherwise.

// The stream of a handle; the default stream of the current device for 0. Throws Failure if there is none, or if its
// device has failed.
CUstream_st& stream_of(cudaStream_t handle);
CUstream_st& stream_even_if_failed(cudaStream_t handle);  // not the default stream
CUevent_st& event_of(cudaEvent_t handle);
std::shared_ptr<CUstream_st> make_stream(int device, unsigned flags, int priority);

// Enqueues an operation, or adds it to the stream's capture.
void submit(CUstream_st& stream, Operation operation);
// Enqueues work of the runtime's own; not in a capture.
void enqueue(CUstream_st& stream, std::function<void()> work);
RecordingPtr record(CUstream_st& stream, bool with_time = false);
RecordingPtr last_of(CUstream_st& stream);  // a recording behind all work; null if there was never any
void wait_in_stream(CUstream_st& stream, const RecordingPtr& recording);

// Without Runtime::mutex. await() waits for a recording; ask() returns whether it is complete. Both do work of stepped
// streams.
void await(const RecordingPtr& recording);
bool ask(const RecordingPtr& recording);
void await_device(int device);
void look_for_problems(int device);  // checks red zones and freed memory

// In a capture, calls that wait or that CUDA calls unsafe fail and invalidate the capture.
void refuse_in_capture(CUstream_st& stream);
void refuse_unsafe_call();
void add_to_capture(CUstream_st& stream, Operation operation);
void join_capture(CUstream_st& stream, CUevent_st& event);

bool is_pinned(const void* begin, std::size_t bytes);

}  // namespace heddle::emulated_gpu

struct CUstream_st {
  int device;
  unsigned flags;
  int priority;
  unsigned long long id;
  std::unique_ptr<heddle::HostStream> work;
  bool stepped, used = false, is_default = false;
  heddle::emulated_gpu::RecordingPtr last{};   // null if work was enqueued since, or never any
  bool idle = true;                            // nothing was ever enqueued
  std::shared_ptr<std::atomic<int>> queued{};  // counted for Settings::queue alone
  std::shared_ptr<heddle::emulated_gpu::Capture> capture{};
  std::vector<cudaGraphNode_t> tail{};  // what the next node of the capture comes after
};

struct CUevent_st {
  int device;
  unsigned flags;
  heddle::emulated_gpu::RecordingPtr last{};
  std::shared_ptr<heddle::emulated_gpu::Capture> capture{};  // that it was recorded in
  std::vector<cudaGraphNode_t> nodes{};
};

struct CUgraphNode_st {
  std::shared_ptr<const heddle::emulated_gpu::Operation> operation;
  std::vector<cudaGraphNode_t> after;
  // Copies of the parameters that cudaGraphKernelNodeGetParams gives out.
  std::vector<void*> arguments{};
};

struct CUgraph_st {
  std::vector<std::unique_ptr<CUgraphNode_st>> nodes{};  // each comes after those that it needs
};

struct CUgraphExec_st {
  int device;
  std::vector<cudaGraphNode_t> nodes{};  // for comparison alone: the graph may be destroyed
  std::vector<std::shared_ptr<const heddle::emulated_gpu::Operation>> operations{};
  std::vector<std::vector<std::size_t>> after{};
  heddle::emulated_gpu::RecordingPtr last{};  // of its last launch
};
