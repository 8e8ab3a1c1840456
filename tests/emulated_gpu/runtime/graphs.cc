// Captures of streams, and graphs.
#include <algorithm>
#include <cstring>
#include <random>
#include <set>
#include <utility>

#include "runtime/locked_call.h"

namespace heddle::emulated_gpu {
namespace {

// Which captures refuse calls of this thread that CUDA calls unsafe.
constinit thread_local cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;

std::uint64_t this_thread() {
  static std::atomic<std::uint64_t> threads{0};
  thread_local const std::uint64_t number = ++threads;
  return number;
}

// The nodes that `nodes` come after, and they themselves.
std::set<cudaGraphNode_t> before(const std::vector<cudaGraphNode_t>& nodes) {
  std::set<cudaGraphNode_t> all;
  std::vector<cudaGraphNode_t> left = nodes;
  while (!left.empty()) {
    const cudaGraphNode_t node = left.back();
    left.pop_back();
    if (all.insert(node).second) left.insert(left.end(), node->after.begin(), node->after.end());
  }
  return all;
}

// Throws Failure if a stream that has joined the capture was not joined to its origin again.
void check_joined(const Capture& capture) {
  const std::set<cudaGraphNode_t> reached = before(capture.origin->tail);
  for (const cudaStream_t stream : capture.streams) {
    for (const cudaGraphNode_t node : stream->tail)
      require(reached.count(node) > 0, cudaErrorStreamCaptureUnjoined);
  }
}

void end_capture(const std::shared_ptr<Capture>& capture) {
  for (const cudaStream_t stream : capture->streams) {
    stream->capture.reset();
    stream->tail.clear();
  }
  std::erase(runtime().captures, capture);
  for (auto& [handle, event] : runtime().events) {
    if (event->capture == capture) {
      event->capture.reset();
      event->nodes.clear();
    }
  }
}

cudaGraph_t keep(std::unique_ptr<CUgraph_st> graph) {
  const cudaGraph_t handle = graph.get();
  runtime().graphs[handle] = std::move(graph);
  return handle;
}

CUgraph_st& graph_of(cudaGraph_t handle) {
  const auto found = runtime().graphs.find(handle);
  require(found != runtime().graphs.end(), cudaErrorInvalidValue);
  return *found->second;
}

CUgraphExec_st& executable_of(cudaGraphExec_t handle) {
  const auto found = runtime().executables.find(handle);
  require(found != runtime().executables.end(), cudaErrorInvalidResourceHandle);
  check_device(found->second->device);
  return *found->second;
}

void fill_in(CUgraphExec_st& executable, const CUgraph_st& graph) {
  executable.nodes.clear();
  executable.operations.clear();
  executable.after.clear();
  for (const auto& node : graph.nodes) {
    std::vector<std::size_t> needed;
    for (const cudaGraphNode_t one : node->after) {
      const auto at = std::find(executable.nodes.begin(), executable.nodes.end(), one);
      needed.push_back(static_cast<std::size_t>(at - executable.nodes.begin()));
    }
    executable.nodes.push_back(node.get());
    executable.operations.push_back(node->operation);
    executable.after.push_back(std::move(needed));
  }
}

// The order in which the nodes run: any that keeps the edges. Seed 0: the order of the capture.
std::vector<std::size_t> order_of(const CUgraphExec_st& executable, std::uint64_t seed) {
  const std::size_t count = executable.operations.size();
  std::mt19937_64 random(seed);
  std::vector<std::size_t> order;
  std::vector<bool> done(count);
  while (order.size() < count) {
    std::vector<std::size_t> ready;
    for (std::size_t i = 0; i < count; ++i) {
      const auto& needed = executable.after[i];
      if (!done[i] && std::all_of(needed.begin(), needed.end(), [&](std::size_t one) { return done[one]; })) {
        ready.push_back(i);
      }
    }
    const std::size_t next = ready[seed == 0 ? 0 : random() % ready.size()];
    done[next] = true;
    order.push_back(next);
  }
  return order;
}

// Replaces the operation of a node in an executable graph by one of the same kind.
void replace(cudaGraphExec_t handle, cudaGraphNode_t node, Operation by) {
  CUgraphExec_st& executable = executable_of(handle);
  const auto found = std::find(executable.nodes.begin(), executable.nodes.end(), node);
  require(found != executable.nodes.end(), cudaErrorInvalidValue);
  auto& place = executable.operations[static_cast<std::size_t>(found - executable.nodes.begin())];
  require(type_of(*place) == type_of(by), cudaErrorInvalidValue);
  place = std::make_shared<const Operation>(std::move(by));
}

CUgraphNode_st& node_of(cudaGraphNode_t handle) {
  for (auto& [graph, owned] : runtime().graphs) {
    for (auto& node : owned->nodes) {
      if (node.get() == handle) return *node;
    }
  }
  throw Failure{cudaErrorInvalidValue};
}

int shared_limit_of(const void* function, int device) {
  const auto found = runtime().shared_limits.find({function, device});
  return found == runtime().shared_limits.end() ? static_cast<int>(on_gpu::kSharedBytes) : found->second;
}

}  // namespace

void refuse_in_capture(CUstream_st& stream) {
  if (!stream.capture) return;
  stream.capture->valid = false;
  throw Failure{cudaErrorStreamCaptureUnsupported};
}

void refuse_unsafe_call() {
  if (thread_mode == cudaStreamCaptureModeRelaxed) return;
  for (const auto& capture : runtime().captures) {
    const bool same_thread = capture->thread == this_thread();
    const bool refuses =
        (capture->mode == cudaStreamCaptureModeGlobal && thread_mode == cudaStreamCaptureModeGlobal) ||
        (capture->mode != cudaStreamCaptureModeRelaxed && same_thread);
    if (!refuses) continue;
    capture->valid = false;
    throw Failure{cudaErrorStreamCaptureUnsupported};
  }
}

void add_to_capture(CUstream_st& stream, Operation operation) {
  Capture& capture = *stream.capture;
  require(capture.valid, cudaErrorStreamCaptureInvalidated);
  auto node = std::make_unique<CUgraphNode_st>();
  node->operation = std::make_shared<const Operation>(std::move(operation));
  node->after = stream.tail;
  stream.tail = {node.get()};
  capture.graph->nodes.push_back(std::move(node));
}

void join_capture(CUstream_st& stream, CUevent_st& event) {
  require(event.capture != nullptr, cudaErrorStreamCaptureIsolation);
  if (!stream.capture) {
    require(!stream.is_default, cudaErrorStreamCaptureImplicit);
    stream.capture = event.capture;
    stream.capture->streams.push_back(&stream);
  }
  if (stream.capture != event.capture) {
    stream.capture->valid = false;
    throw Failure{cudaErrorStreamCaptureMerge};
  }
  for (const cudaGraphNode_t node : event.nodes) {
    if (std::find(stream.tail.begin(), stream.tail.end(), node) == stream.tail.end())
      stream.tail.push_back(node);
  }
}

}  // namespace heddle::emulated_gpu

using namespace heddle::emulated_gpu;

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  return locked_call("cudaStreamBeginCapture", [&] {
    CUstream_st& stream = stream_of(handle);
    require(!stream.is_default, cudaErrorStreamCaptureUnsupported);
    require(!stream.capture, cudaErrorIllegalState);
    stream.capture = std::make_shared<Capture>(Capture{
        .origin = &stream, .mode = mode, .thread = this_thread(), .graph = std::make_unique<CUgraph_st>()});
    stream.capture->streams.push_back(&stream);
    stream.capture->id = ++runtime().ids;
    runtime().captures.push_back(stream.capture);
  });
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  return locked_call("cudaStreamEndCapture", [&] {
    CUstream_st& stream = stream_of(handle);
    const std::shared_ptr<Capture> capture = stream.capture;
    require(capture && graph, cudaErrorIllegalState);
    require(capture->origin == &stream, cudaErrorStreamCaptureUnmatched);
    const bool other_thread =
        capture->mode != cudaStreamCaptureModeRelaxed && capture->thread != this_thread();
    require(!other_thread, cudaErrorStreamCaptureWrongThread);
    *graph = nullptr;
    cudaError_t status = capture->valid ? cudaSuccess : cudaErrorStreamCaptureInvalidated;
    try {
      if (capture->valid) check_joined(*capture);
    } catch (const Failure& failure) {
      status = failure.error;
    }
    end_capture(capture);
    require(status == cudaSuccess, status);
    *graph = keep(std::move(capture->graph));
  });
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return call("cudaThreadExchangeStreamCaptureMode", [&] {
    require(mode, cudaErrorInvalidValue);
    std::swap(*mode, thread_mode);
  });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  return locked_call("cudaStreamIsCapturing", [&] {
    const CUstream_st& stream = stream_of(handle);
    *status = !stream.capture         ? cudaStreamCaptureStatusNone
              : stream.capture->valid ? cudaStreamCaptureStatusActive
                                      : cudaStreamCaptureStatusInvalidated;
  });
}

cudaError_t cudaGraphCreate(cudaGraph_t* graph, unsigned flags) {
  return call("cudaGraphCreate", [&] {
    require(graph && flags == 0, cudaErrorInvalidValue);
    const std::lock_guard guard(runtime().mutex);
    *graph = keep(std::make_unique<CUgraph_st>());
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return locked_release_call("cudaGraphDestroy",
                             [&] { require(runtime().graphs.erase(graph) == 1, cudaErrorInvalidValue); });
}

cudaError_t cudaGraphGetNodes(cudaGraph_t handle, cudaGraphNode_t* nodes, std::size_t* count) {
  return call("cudaGraphGetNodes", [&] {
    require(count, cudaErrorInvalidValue);
    const std::lock_guard guard(runtime().mutex);
    const CUgraph_st& graph = graph_of(handle);
    if (nodes) {
      for (std::size_t i = 0; i < *count; ++i) {
        nodes[i] = i < graph.nodes.size() ? graph.nodes[i].get() : nullptr;
      }
    }
    *count = nodes ? std::min(*count, graph.nodes.size()) : graph.nodes.size();
  });
}

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
  return locked_call("cudaGraphNodeGetType", [&] { *type = type_of(*node_of(node).operation); });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t handle, unsigned long long flags) {
  return call("cudaGraphInstantiate", [&] {
    require(made && flags == 0, cudaErrorInvalidValue);
    const int device = current_device();
    const std::lock_guard guard(runtime().mutex);
    const CUgraph_st& graph = graph_of(handle);
    auto executable = std::make_unique<CUgraphExec_st>(CUgraphExec_st{.device = device});
    fill_in(*executable, graph);
    *made = executable.get();
    runtime().executables[executable.get()] = std::move(executable);
  });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t handle) {
  return locked_release_call("cudaGraphExecDestroy", [&] {
    require(runtime().executables.erase(handle) == 1, cudaErrorInvalidResourceHandle);
  });
}

cudaError_t cudaGraphUpload(cudaGraphExec_t handle, cudaStream_t stream) {
  return locked_call("cudaGraphUpload", [&] {
    stream_of(stream);
    executable_of(handle);
  });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t handle, cudaStream_t on) {
  return locked_call("cudaGraphLaunch", [&] {
    CUstream_st& stream = stream_of(on);
    CUgraphExec_st& executable = executable_of(handle);
    refuse_in_capture(stream);
    ++runtime().graph_launches;
    // Launches of one executable graph run one after another.
    if (executable.last) wait_in_stream(stream, executable.last);
    const std::uint64_t seed = runtime().settings.seed;
    const auto order = order_of(executable, seed == 0 ? 0 : seed + ++runtime().ids);
    for (const std::size_t i : order) {
      enqueue(stream, [kept = executable.operations[i], device = executable.device, since = failures()] {
        run(*kept, device, since);
      });
    }
    executable.last = record(stream);
  });
}

cudaError_t cudaGraphExecUpdate(cudaGraphExec_t handle, cudaGraph_t from,
                                cudaGraphExecUpdateResultInfo* result) {
  return locked_call("cudaGraphExecUpdate", [&] {
    CUgraphExec_st& executable = executable_of(handle);
    CUgraphExec_st updated{.device = executable.device};
    fill_in(updated, graph_of(from));
    bool same = updated.after == executable.after;
    for (std::size_t i = 0; same && i < updated.operations.size(); ++i) {
      same = type_of(*updated.operations[i]) == type_of(*executable.operations[i]);
    }
    if (result) {
      *result = {};
      result->result = same ? cudaGraphExecUpdateSuccess : cudaGraphExecUpdateErrorTopologyChanged;
    }
    require(same, cudaErrorGraphExecUpdateFailure);
    // The nodes stay those of the graph that was instantiated.
    executable.operations = std::move(updated.operations);
  });
}

cudaError_t cudaGraphKernelNodeGetParams(cudaGraphNode_t handle, cudaKernelNodeParams* parameters) {
  return locked_call("cudaGraphKernelNodeGetParams", [&] {
    CUgraphNode_st& node = node_of(handle);
    require(type_of(*node.operation) == cudaGraphNodeTypeKernel, cudaErrorInvalidValue);
    const auto& kernel = std::get<KernelCall>(node.operation->what);
    node.arguments = {kernel.argument.get()};
    *parameters = {};
    parameters->func = const_cast<heddle::on_gpu::emulated::Kernel*>(kernel.kernel);
    parameters->gridDim = kernel.grid;
    parameters->blockDim = kernel.block;
    parameters->sharedMemBytes = static_cast<unsigned>(kernel.shared_bytes);
    parameters->kernelParams = node.arguments.data();
  });
}

cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t executable, cudaGraphNode_t node,
                                             const cudaKernelNodeParams* to) {
  return call("cudaGraphExecKernelNodeSetParams", [&] {
    require(to, cudaErrorInvalidValue);
    const std::lock_guard guard(runtime().mutex);
    replace(executable, node,
            {checked_launch(to->func, to->gridDim, to->blockDim, to->kernelParams, to->sharedMemBytes,
                            shared_limit_of(to->func, executable_of(executable).device))});
  });
}

cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t executable, cudaGraphNode_t node, void* to,
                                               const void* from, std::size_t bytes, cudaMemcpyKind) {
  return locked_call("cudaGraphExecMemcpyNodeSetParams1D", [&] {
    replace(executable, node, {CopyCall{to, bytes, from, bytes, bytes, 1}});
  });
}

cudaError_t cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t executable, cudaGraphNode_t node,
                                             const cudaMemsetParams* to) {
  return locked_call("cudaGraphExecMemsetNodeSetParams", [&] {
    replace(executable, node,
            {FillCall{to->dst, to->pitch, to->value, to->elementSize, to->width, to->height}});
  });
}

cudaError_t cudaGraphExecHostNodeSetParams(cudaGraphExec_t executable, cudaGraphNode_t node,
                                           const cudaHostNodeParams* to) {
  return call("cudaGraphExecHostNodeSetParams", [&] {
    require(to && to->fn, cudaErrorInvalidValue);
    const std::lock_guard guard(runtime().mutex);
    replace(executable, node, {HostCall{to->fn, to->userData}});
  });
}

cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments,
                             std::size_t shared_bytes, cudaStream_t handle) {
  return call("cudaLaunchKernel", [&] {
    const int device = current_device();
    const std::lock_guard guard(runtime().mutex);
    CUstream_st& stream = stream_of(handle);
    require(stream.device == device, cudaErrorInvalidResourceHandle);
    submit(stream, {checked_launch(function, grid, block, arguments, shared_bytes,
                                   shared_limit_of(function, device))});
  });
}

cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value) {
  return locked_call("cudaFuncSetAttribute", [&] {
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return;
    require(value >= 0 && value <= 227 << 10, cudaErrorInvalidValue);
    runtime().shared_limits[{function, current_device()}] = value;
  });
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* function) {
  return call("cudaFuncGetAttributes", [&] {
    require(attributes && function, cudaErrorInvalidValue);
    const std::lock_guard guard(runtime().mutex);
    *attributes = {};
    attributes->maxThreadsPerBlock = 1024;
    attributes->numRegs = 32;
    attributes->ptxVersion = attributes->binaryVersion = 90;
    attributes->maxDynamicSharedSizeBytes = shared_limit_of(function, current_device());
  });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*, int threads,
                                                          std::size_t shared) {
  return call("cudaOccupancyMaxActiveBlocksPerMultiprocessor", [&] {
    require(blocks && threads > 0 && threads <= 1024, cudaErrorInvalidValue);
    const std::size_t by_shared = shared == 0 ? 32 : (std::size_t{228} << 10) / (shared + 1024);
    *blocks = std::min({32, 2048 / threads, static_cast<int>(by_shared)});
  });
}

}  // extern "C"
