#include "gpu/gpu_events.h"

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <string>
#include <vector>

#include <heddle/default_engine.h>
#include <heddle/stream_ops.h>

namespace heddle::bench {
namespace {

struct CudaEvent {
  CudaEvent() { check_cuda(cudaEventCreate(&event)); }
  ~CudaEvent() { cudaEventDestroy(event); }
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;
  cudaEvent_t event = nullptr;
};

void push_record(const NDArray& x, const CudaEvent& event) {
  Engine& engine = x.engine();
  engine.push_on(engine.stream(gpu(0)),
                 [event = event.event](Stream& stream) {
                   check_cuda(cudaEventRecord(event, static_cast<cudaStream_t>(stream.native())));
                 },
                 {.mutate = {x.var()}, .name = "record"});
}

}  // namespace

void check_cuda(cudaError_t status) {
  if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
}

double median_of(int runs, const std::function<double()>& fn) {
  std::vector<double> values;
  for (int i = 0; i <= runs; ++i) values.push_back(fn());
  values.erase(values.begin());
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double seconds_of(const std::function<void()>& fn) {
  const auto start = std::chrono::steady_clock::now();
  fn();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double device_seconds(const NDArray& x, int calls, const std::function<void()>& fn) {
  check_cuda(cudaSetDevice(0));
  const CudaEvent start, end;
  push_record(x, start);
  try {
    for (int i = 0; i < calls; ++i) fn();
  } catch (...) {
    x.wait();  // the event is still to be recorded
    throw;
  }
  push_record(x, end);
  x.wait();
  check_cuda(cudaEventSynchronize(end.event));
  float milliseconds = 0;
  check_cuda(cudaEventElapsedTime(&milliseconds, start.event, end.event));
  return std::max<double>(milliseconds, 1e-6) / 1e3 / calls;
}

}  // namespace heddle::bench
