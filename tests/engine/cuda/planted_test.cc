// Faults that tools/gpu-check has to survive and to name: tests/tools/gpu_check_planted.py runs it with this program.
#include <chrono>
#include <cuda_runtime_api.h>
#include <thread>

#include <doctest/doctest.h>

#include "kernels.h"

namespace heddle::test {
namespace {

TEST_CASE("planted: passes first") { CHECK(cudaSetDevice(0) == cudaSuccess); }

TEST_CASE("planted: loses the GPU") {
  cudaStream_t stream = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  trap(stream);
  CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
}

TEST_CASE("planted: needs the GPU behind it") {
  void* memory = nullptr;
  REQUIRE(cudaMalloc(&memory, 100) == cudaSuccess);
  CHECK(cudaFree(memory) == cudaSuccess);
}

TEST_CASE("planted: fails alone") { CHECK(cudaSetDevice(-1) == cudaSuccess); }

TEST_CASE("planted: hangs") {
  for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

TEST_CASE("planted: passes last") { CHECK(cudaSetDevice(0) == cudaSuccess); }

}  // namespace
}  // namespace heddle::test
