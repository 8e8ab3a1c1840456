// Captures and graphs.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "emulated_gpu.h"
#include "samples/kernels.h"
#include "samples/memory.h"
#include "samples/samples.h"
#include "samples/seeds.h"

namespace heddle::test {
namespace {

constexpr long long kCount = 500;
constexpr std::size_t kBytes = kCount * sizeof(float);

cudaGraph_t captured(cudaStream_t stream, const auto& body) {
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  body();
  cudaGraph_t graph = nullptr;
  check(cudaStreamEndCapture(stream, &graph));
  return graph;
}

cudaGraphExec_t instantiated(cudaGraph_t graph) {
  cudaGraphExec_t executable = nullptr;
  check(cudaGraphInstantiate(&executable, graph, 0));
  return executable;
}

TEST_CASE("a captured program runs when its graph is launched, and not before") {
  for_each_seed([] {
    const OnDevice<float> x(std::vector<float>(kCount, 0)), y(kCount), z(kCount);
    const TestStream stream, side;
    cudaEvent_t fork = nullptr, join = nullptr;
    check(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
    check(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
    const cudaGraph_t graph = captured(stream, [&] {
      check(fill(stream, x.data(), 3, kCount));
      check(cudaEventRecord(fork, stream));
      check(cudaStreamWaitEvent(side, fork, 0));
      check(vector_add(side, Bug::none, x.data(), x.data(), y.data(), kCount));
      check(fill(stream, z.data(), 5, kCount));
      check(cudaEventRecord(join, side));
      check(cudaStreamWaitEvent(stream, join, 0));
      check(vector_add(stream, Bug::none, y.data(), z.data(), x.data(), kCount));
      cudaStreamCaptureStatus status;
      check(cudaStreamIsCapturing(side, &status));
      CHECK(status == cudaStreamCaptureStatusActive);
    });
    std::size_t nodes = 0;
    check(cudaGraphGetNodes(graph, nullptr, &nodes));
    CHECK(nodes == 4);
    CHECK(x.values(stream) == std::vector<float>(kCount, 0));
    const cudaGraphExec_t executable = instantiated(graph);
    check(cudaGraphDestroy(graph));
    for (int i = 0; i < 3; ++i) check(cudaGraphLaunch(executable, i % 2 ? stream : side));
    side.wait();
    CHECK(x.values(stream) == std::vector<float>(kCount, 11));
    check(cudaGraphExecDestroy(executable));
    check(cudaEventDestroy(fork));
    check(cudaEventDestroy(join));
  });
}

TEST_CASE("parameters of nodes are replaced between launches") {
  const OnDevice<float> x(kCount), y(std::vector<float>(kCount, 0)), z(std::vector<float>(kCount, 0));
  const TestStream stream;
  static std::vector<int> called;
  called.clear();
  int one = 1;
  const cudaGraph_t graph = captured(stream, [&] {
    check(fill(stream, x.data(), 3, kCount));
    check(cudaMemcpyAsync(y.data(), x.data(), kBytes, cudaMemcpyDefault, stream));
    check(cudaLaunchHostFunc(
        stream, [](void* value) { called.push_back(*static_cast<int*>(value)); }, &one));
  });
  std::size_t count = 3;
  cudaGraphNode_t nodes[3];
  check(cudaGraphGetNodes(graph, nodes, &count));
  const cudaGraphExec_t executable = instantiated(graph);
  check(cudaGraphLaunch(executable, stream));
  cudaGraphNodeType type;
  check(cudaGraphNodeGetType(nodes[2], &type));
  CHECK(type == cudaGraphNodeTypeHost);
  cudaKernelNodeParams kernel;
  check(cudaGraphKernelNodeGetParams(nodes[0], &kernel));
  Fill other{x.data(), 7, kCount};
  void* arguments[] = {&other};
  kernel.kernelParams = arguments;
  check(cudaGraphExecKernelNodeSetParams(executable, nodes[0], &kernel));
  check(cudaGraphExecMemcpyNodeSetParams1D(executable, nodes[1], z.data(), x.data(), kBytes,
                                           cudaMemcpyDefault));
  int two = 2;
  const cudaHostNodeParams host{[](void* value) { called.push_back(10 * *static_cast<int*>(value)); }, &two};
  check(cudaGraphExecHostNodeSetParams(executable, nodes[2], &host));
  CHECK(cudaGraphExecHostNodeSetParams(executable, nodes[0], &host) == cudaErrorInvalidValue);
  check(cudaGraphLaunch(executable, stream));
  CHECK(y.values(stream) == std::vector<float>(kCount, 3));
  CHECK(z.values(stream) == std::vector<float>(kCount, 7));
  CHECK(called == std::vector<int>{1, 20});
  check(cudaGraphDestroy(graph));
  check(cudaGraphExecDestroy(executable));
  cudaGetLastError();
}

TEST_CASE("what a capture refuses") {
  const TestStream stream, side;
  const OnDevice<float> x(kCount);
  cudaEvent_t event = nullptr;
  cudaGraph_t graph = nullptr;
  void* memory = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  check(cudaEventRecord(event, side));
  const auto ended_with = [&] {
    const cudaError_t status = cudaStreamEndCapture(stream, &graph);
    CHECK(graph == nullptr);
    cudaGetLastError();
    return status;
  };
  const auto begin = [&] { check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal)); };
  begin();
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed) == cudaErrorIllegalState);
  CHECK(cudaStreamSynchronize(stream) == cudaErrorStreamCaptureUnsupported);
  CHECK(fill(stream, x.data(), 1, kCount) == cudaErrorStreamCaptureInvalidated);
  CHECK(ended_with() == cudaErrorStreamCaptureInvalidated);
  begin();
  CHECK(cudaMalloc(&memory, 10) == cudaErrorStreamCaptureUnsupported);
  CHECK(ended_with() == cudaErrorStreamCaptureInvalidated);
  begin();
  CHECK(cudaStreamWaitEvent(stream, event, 0) == cudaErrorStreamCaptureIsolation);
  check(cudaEventRecord(event, stream));
  CHECK(cudaEventQuery(event) == cudaErrorCapturedEvent);
  check(cudaStreamWaitEvent(side, event, 0));
  check(fill(side, x.data(), 1, kCount));
  CHECK(cudaStreamEndCapture(side, &graph) == cudaErrorStreamCaptureUnmatched);
  CHECK(ended_with() == cudaErrorStreamCaptureUnjoined);
  CHECK(cudaStreamEndCapture(stream, &graph) == cudaErrorIllegalState);
  check(fill(side, x.data(), 1, kCount));
  CHECK(x.values(side)[0] == 1);
  check(cudaEventDestroy(event));
  cudaGetLastError();
}

TEST_CASE(
    "a thread may make calls that its capture refuses, if it says so; a stream that ends ends its capture") {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  check(cudaThreadExchangeStreamCaptureMode(&mode));
  CHECK(mode == cudaStreamCaptureModeGlobal);
  void *memory = nullptr, *refused = nullptr;
  check(cudaMalloc(&memory, 10));
  check(cudaThreadExchangeStreamCaptureMode(&mode));
  CHECK(mode == cudaStreamCaptureModeRelaxed);
  CHECK(cudaMalloc(&refused, 10) == cudaErrorStreamCaptureUnsupported);
  cudaGetLastError();
  check(cudaStreamDestroy(stream));
  check(cudaFree(memory));
}

TEST_CASE("an executable graph takes over the operations of a graph of the same shape") {
  const OnDevice<float> x(kCount);
  const TestStream stream;
  const cudaGraph_t first = captured(stream, [&] { check(fill(stream, x.data(), 1, kCount)); });
  const cudaGraph_t second = captured(stream, [&] { check(fill(stream, x.data(), 2, kCount)); });
  const cudaGraph_t longer = captured(stream, [&] {
    check(fill(stream, x.data(), 2, kCount));
    check(fill(stream, x.data(), 2, kCount));
  });
  const cudaGraphExec_t executable = instantiated(first);
  cudaGraphExecUpdateResultInfo info;
  check(cudaGraphExecUpdate(executable, second, &info));
  check(cudaGraphLaunch(executable, stream));
  CHECK(x.values(stream)[9] == 2);
  CHECK(cudaGraphExecUpdate(executable, longer, &info) == cudaErrorGraphExecUpdateFailure);
  CHECK(info.result == cudaGraphExecUpdateErrorTopologyChanged);
  for (const cudaGraph_t graph : {first, second, longer}) check(cudaGraphDestroy(graph));
  check(cudaGraphExecDestroy(executable));
  cudaGetLastError();
}

}  // namespace
}  // namespace heddle::test
