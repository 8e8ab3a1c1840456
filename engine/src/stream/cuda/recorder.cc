// A recorder captures a stream of its own, so that what other threads enqueue on the recorded stream meanwhile, such as the end of
// memory, is no part of it. The capture is thread-local: calls of other threads neither fail nor make it fail.
#include "stream/cuda/recorder.h"

#include <utility>
#include <vector>

#include <heddle/gpu_memory.h>

#include "stream/cuda/status.h"

namespace heddle::detail {
namespace {

void check(cudaError_t status, const char* call, Device device) {
  if (succeeds(status)) return;
  throw Error(std::string(call) + " on " + device.to_string() + ": " + cudaGetErrorString(status));
}

struct Block {
  std::byte* memory;
  std::size_t bytes;
  bool used;
};

// Memory of the recorded stream's pool. Work of one recording runs in order, so later ops have what earlier ones have freed.
struct Blocks {
  ~Blocks() {
    for (const Block& block : all) gpu_free(block.memory);
  }
  std::vector<Block> all;
};

class CudaWork final : public RecordedWork {
 public:
  explicit CudaWork(std::unique_ptr<Blocks> blocks) : blocks_(std::move(blocks)) {}
  ~CudaWork() override {
    if (graph) succeeds(cudaGraphExecDestroy(graph));
  }
  cudaGraphExec_t graph = nullptr;

 private:
  std::unique_ptr<Blocks> blocks_;
};

// Calls that a capture of this thread refuses are allowed while it lives: they have nothing to do with the capture.
class OutsideCapture {
 public:
  OutsideCapture() : exchanged_(succeeds(cudaThreadExchangeStreamCaptureMode(&mode_))) {}
  ~OutsideCapture() {
    if (exchanged_) succeeds(cudaThreadExchangeStreamCaptureMode(&mode_));
  }
  OutsideCapture(const OutsideCapture&) = delete;
  OutsideCapture& operator=(const OutsideCapture&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
  const bool exchanged_;
};

class CudaRecorder final : public WorkRecorder {
 public:
  explicit CudaRecorder(Stream& of) : recorded_(of), stream_(of.device(), of.lane()) {
    of.begin();
    check(cudaStreamCreateWithFlags(&stream_.handle, cudaStreamNonBlocking), "cudaStreamCreateWithFlags",
          of.device());
    const cudaError_t status = cudaStreamBeginCapture(stream_.handle, cudaStreamCaptureModeThreadLocal);
    if (!succeeds(status)) succeeds(cudaStreamDestroy(stream_.handle));
    check(status, "cudaStreamBeginCapture", of.device());
    current = this;
  }
  ~CudaRecorder() override {
    if (current == this) succeeds(end(nullptr));
    succeeds(cudaStreamDestroy(stream_.handle));
  }

  Stream& stream() override { return stream_; }

  std::shared_ptr<RecordedWork> finish() override {
    // cudaGetLastError is the only call that reports a kernel which could not be launched.
    const cudaError_t launch = cudaGetLastError();
    cudaGraph_t graph = nullptr;
    const cudaError_t ended = end(&graph);
    auto work = std::make_shared<CudaWork>(std::exchange(blocks_, nullptr));
    const bool good = launch == cudaSuccess && succeeds(ended);
    const cudaError_t made = good ? cudaGraphInstantiate(&work->graph, graph, 0) : cudaSuccess;
    if (!succeeds(made)) work->graph = nullptr;
    if (graph) succeeds(cudaGraphDestroy(graph));
    check(launch, "a launch", stream_.device());
    check(ended, "cudaStreamEndCapture", stream_.device());
    check(made, "cudaGraphInstantiate", stream_.device());
    return work;
  }

  std::byte* allocate(std::size_t bytes) {
    Block* best = nullptr;
    for (Block& block : blocks_->all) {
      if (!block.used && block.bytes >= bytes && (!best || block.bytes < best->bytes)) best = &block;
    }
    if (best) {
      best->used = true;
      return best->memory;
    }
    const OutsideCapture outside;
    blocks_->all.reserve(blocks_->all.size() + 1);
    std::byte* const memory = gpu_allocate(recorded_, recorded_, bytes);
    if (memory) blocks_->all.push_back({memory, bytes, true});
    return memory;
  }

  bool free(const std::byte* memory) noexcept {
    for (Block& block : blocks_->all) {
      if (block.memory != memory) continue;
      block.used = false;
      return true;
    }
    return false;
  }

  static constinit thread_local CudaRecorder* current;  // null: this thread records nothing

 private:
  struct Captured final : RecorderStream {
    using RecorderStream::RecorderStream;
    void copy(void* to, const void* from, std::size_t bytes) override {
      check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, handle), "cudaMemcpyAsync", device());
    }
    void* native() const override { return handle; }
    cudaStream_t handle = nullptr;
  };

  cudaError_t end(cudaGraph_t* graph) noexcept {
    current = nullptr;
    cudaGraph_t made = nullptr;
    const cudaError_t status = cudaStreamEndCapture(stream_.handle, &made);
    if (status == cudaSuccess && graph) {
      *graph = made;
    } else if (made) {
      succeeds(cudaGraphDestroy(made));
    }
    return status;
  }

  Stream& recorded_;
  Captured stream_;
  std::unique_ptr<Blocks> blocks_ = std::make_unique<Blocks>();
};
constinit thread_local CudaRecorder* CudaRecorder::current = nullptr;

}  // namespace

std::shared_ptr<WorkRecorder> record_cuda(Stream& stream) { return std::make_shared<CudaRecorder>(stream); }

void launch_recorded(RecordedWork& work, cudaStream_t stream, Device device) {
  check(cudaGraphLaunch(static_cast<CudaWork&>(work).graph, stream), "cudaGraphLaunch", device);
}

bool records_on(const Stream& stream) {
  return CudaRecorder::current && &CudaRecorder::current->stream() == &stream;
}
std::byte* allocate_recorded(std::size_t bytes) { return CudaRecorder::current->allocate(bytes); }
bool free_recorded(std::byte* memory) noexcept {
  return CudaRecorder::current && CudaRecorder::current->free(memory);
}

}  // namespace heddle::detail
