// What the runtime promises: order, errors, and that it finds wrong use.
#include <atomic>
#include <csignal>
#include <cstring>
#include <numeric>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <doctest/doctest.h>

#include "emulated_gpu.h"
#include "samples/kernels.h"
#include "samples/memory.h"
#include "samples/samples.h"
#include "samples/seeds.h"

namespace heddle::test {
namespace {

bool contains(const std::string& text, const std::string& part) {
  const bool found = text.find(part) != std::string::npos;
  if (!found) MESSAGE(text);
  return found;
}

// The text of the only problem that was found; makes the device usable again.
std::string only_problem() {
  emulated_gpu::revive(0);
  cudaGetLastError();
  const std::vector<std::string> found = emulated_gpu::take_problems();
  REQUIRE(found.size() == 1);
  return found[0];
}

TEST_CASE("devices, versions and properties") {
  int count = 0, driver = 0, version = 0, value = 0;
  check(cudaGetDeviceCount(&count));
  CHECK(count == 8);
  check(cudaDriverGetVersion(&driver));
  check(cudaRuntimeGetVersion(&version));
  CHECK(driver == version);
  CHECK(version == CUDART_VERSION);
  CHECK(cudaSetDevice(8) == cudaErrorInvalidDevice);
  CHECK(cudaGetLastError() == cudaErrorInvalidDevice);
  check(cudaSetDevice(7));
  check(cudaGetDevice(&value));
  CHECK(value == 7);
  std::thread([] {
    int other = 1;
    check(cudaGetDevice(&other));
    CHECK(other == 0);
  }).join();
  check(cudaSetDevice(0));
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, 3));
  CHECK(std::string(properties.name) == "Heddle emulated GPU");
  CHECK(properties.warpSize == 32);
  check(cudaDeviceGetAttribute(&value, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0));
  CHECK(value == 227 << 10);
  char bus[16];
  check(cudaDeviceGetPCIBusId(bus, sizeof bus, 2));
  CHECK(std::string(bus) == "0000:03:00.0");
  CHECK(std::string(cudaGetErrorString(cudaErrorIllegalAddress)) ==
        "an illegal memory access was encountered");
  CHECK(std::string(cudaGetErrorName(cudaErrorNotReady)) == "cudaErrorNotReady");
}

TEST_CASE("the last error belongs to a thread") {
  CHECK(cudaSetDevice(99) == cudaErrorInvalidDevice);
  std::thread([] { CHECK(cudaGetLastError() == cudaSuccess); }).join();
  CHECK(cudaPeekAtLastError() == cudaErrorInvalidDevice);
  CHECK(cudaGetLastError() == cudaErrorInvalidDevice);
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("work of a stream runs in order, and a stream waits for another's event") {
  for_each_seed([] {
    constexpr std::size_t kCount = 1000;
    const OnDevice<float> x(kCount), y(kCount);
    const InPinned<float> out(kCount);
    const TestStream first, second;
    cudaEvent_t event = nullptr;
    check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    for (int round = 1; round < 5; ++round) {
      const auto value = static_cast<float>(round);
      check(fill(first, x.data(), value, kCount));
      check(vector_add(first, Bug::none, x.data(), x.data(), y.data(), kCount));
      check(cudaEventRecord(event, first));
      check(cudaStreamWaitEvent(second, event, 0));
      check(cudaMemcpyAsync(out.data(), y.data(), out.bytes(), cudaMemcpyDeviceToHost, second));
      check(cudaEventRecord(event, second));
      check(cudaStreamWaitEvent(first, event, 0));
      check(cudaMemsetAsync(y.data(), 0, y.bytes(), first));
      second.wait();
      for (std::size_t i = 0; i < kCount; ++i) REQUIRE(out[i] == 2 * value);
    }
    first.wait();
    check(cudaEventDestroy(event));
  });
}

TEST_CASE("blocking streams and the default stream wait for each other, and non-blocking ones do not") {
  for_each_seed([] {
    const OnDevice<float> x(100), y(100);
    cudaStream_t blocking = nullptr;
    check(cudaStreamCreate(&blocking));
    check(fill(blocking, x.data(), 3, 100));
    check(vector_add(nullptr, Bug::none, x.data(), x.data(), y.data(), 100));
    check(vector_add(blocking, Bug::none, y.data(), y.data(), x.data(), 100));
    check(cudaStreamSynchronize(blocking));
    std::vector<float> got(100);
    check(cudaMemcpy(got.data(), x.data(), x.bytes(), cudaMemcpyDeviceToHost));
    CHECK(got == std::vector<float>(100, 12));
    check(cudaStreamDestroy(blocking));
  });
}

TEST_CASE("a stream is destroyed while it has work, which still runs") {
  for_each_seed([] {
    std::atomic<int> calls{0};
    const auto count = [](void* at) { ++*static_cast<std::atomic<int>*>(at); };
    for (int i = 1; i <= 5; ++i) {
      const TestStream stream;
      check(cudaLaunchHostFunc(stream, count, &calls));
      check(cudaDeviceSynchronize());
      check(cudaLaunchHostFunc(stream, count, &calls));
    }
    check(cudaDeviceSynchronize());
    CHECK(calls == 10);
  });
}

TEST_CASE("events: queries, elapsed time, flags") {
  const TestStream stream;
  cudaEvent_t begin = nullptr, end = nullptr, untimed = nullptr;
  check(cudaEventCreate(&begin));
  check(cudaEventCreate(&end));
  check(cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming));
  check(cudaEventQuery(begin));  // never recorded
  float milliseconds = -1;
  CHECK(cudaEventElapsedTime(&milliseconds, begin, end) == cudaErrorInvalidResourceHandle);
  std::atomic<bool> flag{false};
  check(cudaEventRecord(begin, stream));
  check(cudaLaunchHostFunc(
      stream, [](void* at) { static_cast<std::atomic<bool>*>(at)->wait(false); }, &flag));
  check(cudaEventRecord(end, stream));
  CHECK(cudaEventQuery(end) == cudaErrorNotReady);
  CHECK(cudaStreamQuery(stream) == cudaErrorNotReady);
  CHECK(cudaEventElapsedTime(&milliseconds, begin, end) == cudaErrorNotReady);
  flag = true;
  flag.notify_all();
  check(cudaEventSynchronize(end));
  check(cudaStreamQuery(stream));
  check(cudaEventElapsedTime(&milliseconds, begin, end));
  CHECK(milliseconds >= 0);
  CHECK(cudaEventElapsedTime(&milliseconds, begin, untimed) == cudaErrorInvalidResourceHandle);
  CHECK(cudaEventCreateWithFlags(&untimed, 0x80) == cudaErrorInvalidValue);
  for (const cudaEvent_t event : {begin, end, untimed}) check(cudaEventDestroy(event));
  CHECK(cudaEventDestroy(begin) == cudaErrorInvalidResourceHandle);
  CHECK(cudaEventRecord(begin, stream) == cudaErrorInvalidResourceHandle);
  CHECK(cudaStreamSynchronize(reinterpret_cast<cudaStream_t>(&milliseconds)) ==
        cudaErrorInvalidResourceHandle);
  cudaGetLastError();
}

TEST_CASE("a global capture refuses queries of events by other threads, unless they are relaxed") {
  const TestStream stream, captured;
  cudaEvent_t event = nullptr;
  check(cudaEventCreate(&event));
  check(cudaEventRecord(event, stream));
  for (const bool relaxed : {true, false}) {
    CAPTURE(relaxed);
    cudaGraph_t graph = nullptr;
    check(cudaStreamBeginCapture(captured, cudaStreamCaptureModeGlobal));
    std::thread([&] {
      cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
      if (relaxed) check(cudaThreadExchangeStreamCaptureMode(&mode));
      CHECK(cudaEventSynchronize(event) == (relaxed ? cudaSuccess : cudaErrorStreamCaptureUnsupported));
      CHECK(cudaEventQuery(event) == (relaxed ? cudaSuccess : cudaErrorStreamCaptureUnsupported));
    }).join();
    CHECK(cudaStreamEndCapture(captured, &graph) ==
          (relaxed ? cudaSuccess : cudaErrorStreamCaptureInvalidated));
    if (graph) check(cudaGraphDestroy(graph));
  }
  check(cudaEventDestroy(event));
  cudaGetLastError();
}

TEST_CASE("a function of the host may not call CUDA") {
  const TestStream stream;
  static cudaError_t got;
  check(cudaLaunchHostFunc(
      stream, [](void*) { got = cudaSetDevice(0); }, nullptr));
  stream.wait();
  CHECK(got == cudaErrorNotPermitted);
}

TEST_CASE("memory is poisoned when it is fresh") {
  const OnDevice<unsigned char> x(1000);
  const TestStream stream;
  CHECK(x.values(stream) == std::vector<unsigned char>(1000, 0xff));
  void* memory = nullptr;
  check(cudaMallocAsync(&memory, 1000, stream));
  std::vector<unsigned char> got(1000);
  check(cudaMemcpyAsync(got.data(), memory, 1000, cudaMemcpyDefault, stream));
  CHECK(got == std::vector<unsigned char>(1000, 0xff));
  check(cudaFreeAsync(memory, stream));
  const InPinned<unsigned char> pinned(10);
  CHECK(pinned[9] == 0xff);
  stream.wait();
}

TEST_CASE("wrong use of memory is refused as CUDA does") {
  const TestStream stream;
  OnDevice<int> x(100);
  const InPinned<int> pinned(100);
  CHECK(cudaMemcpyAsync(x.data(), pinned.data(), 404, cudaMemcpyDefault, stream) == cudaErrorInvalidValue);
  CHECK(cudaMemcpyAsync(x.data() + 50, pinned.data(), 204, cudaMemcpyDefault, stream) ==
        cudaErrorInvalidValue);
  CHECK(cudaMemcpyAsync(x.data(), pinned.data(), 4, cudaMemcpyDeviceToHost, stream) == cudaErrorInvalidValue);
  CHECK(cudaMemcpyAsync(x.data(), pinned.data(), 4, static_cast<cudaMemcpyKind>(7), stream) ==
        cudaErrorInvalidMemcpyDirection);
  CHECK(cudaMemsetAsync(pinned.data() + 200, 0, 4, stream) == cudaErrorInvalidValue);
  CHECK(cudaMemcpy2DAsync(x.data(), 8, pinned.data(), 16, 16, 2, cudaMemcpyDefault, stream) ==
        cudaErrorInvalidPitchValue);
  CHECK(cudaFree(x.data() + 1) == cudaErrorInvalidValue);
  CHECK(cudaFreeHost(x.data()) == cudaErrorInvalidValue);
  void* memory = nullptr;
  CHECK(cudaMalloc(&memory, std::size_t{5} << 30) == cudaErrorMemoryAllocation);
  check(cudaMalloc(&memory, 64));
  check(cudaFree(memory));
  CHECK(cudaFree(memory) == cudaErrorInvalidValue);
  CHECK(cudaMemsetAsync(memory, 0, 4, stream) == cudaErrorInvalidValue);
  check(cudaMallocAsync(&memory, 64, stream));
  check(cudaFreeAsync(memory, stream));
  CHECK(cudaFreeAsync(memory, stream) == cudaErrorInvalidValue);
  check(cudaFree(nullptr));
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total));
  CHECK(total == std::size_t{4} << 30);
  CHECK(free < total);
  cudaGetLastError();
}

TEST_CASE("what pointers are, and registered memory") {
  const OnDevice<int> x(10);
  const InPinned<int> pinned(10);
  std::vector<int> pageable(1000);
  cudaPointerAttributes found;
  check(cudaPointerGetAttributes(&found, x.data() + 3));
  CHECK(found.type == cudaMemoryTypeDevice);
  CHECK(found.device == 0);
  check(cudaPointerGetAttributes(&found, pinned.data()));
  CHECK(found.type == cudaMemoryTypeHost);
  check(cudaPointerGetAttributes(&found, pageable.data()));
  CHECK(found.type == cudaMemoryTypeUnregistered);
  check(cudaHostRegister(pageable.data(), 4000, cudaHostRegisterDefault));
  CHECK(cudaHostRegister(pageable.data(), 4000, cudaHostRegisterDefault) ==
        cudaErrorHostMemoryAlreadyRegistered);
  check(cudaPointerGetAttributes(&found, pageable.data() + 999));
  CHECK(found.type == cudaMemoryTypeHost);
  check(cudaHostUnregister(pageable.data()));
  CHECK(cudaHostUnregister(pageable.data()) == cudaErrorHostMemoryNotRegistered);
  cudaGetLastError();
}

TEST_CASE("rows with pitches, and copies between devices") {
  for_each_seed([] {
    const OnDevice<int> x(std::vector<int>{1, 2, 3, 4, 5, 6}), y(std::vector<int>(6, 0));
    const TestStream stream;
    check(cudaMemcpy2DAsync(y.data(), 12, x.data(), 8, 8, 2, cudaMemcpyDefault, stream));
    CHECK(y.values(stream) == std::vector<int>{1, 2, 0, 3, 4, 0});
    check(cudaMemset2DAsync(y.data() + 2, 12, 1, 4, 2, stream));
    CHECK(y.values(stream) == std::vector<int>{1, 2, 0x01010101, 3, 4, 0x01010101});
    check(cudaSetDevice(5));
    const OnDevice<int> there(6);
    check(cudaSetDevice(0));
    check(cudaMemcpyPeerAsync(there.data(), 5, x.data(), 0, 24, stream));
    CHECK(there.values(stream) == std::vector<int>{1, 2, 3, 4, 5, 6});
    CHECK(cudaMemcpyPeerAsync(there.data(), 4, x.data(), 0, 24, stream) == cudaErrorInvalidValue);
    cudaGetLastError();
  });
  int can = 0;
  check(cudaDeviceCanAccessPeer(&can, 0, 1));
  CHECK(can == 1);
  check(cudaDeviceEnablePeerAccess(1, 0));
  CHECK(cudaDeviceEnablePeerAccess(1, 0) == cudaErrorPeerAccessAlreadyEnabled);
  check(cudaDeviceDisablePeerAccess(1));
  CHECK(cudaDeviceDisablePeerAccess(1) == cudaErrorPeerAccessNotEnabled);
  cudaGetLastError();
}

TEST_CASE("memory of a pool goes to another device by copies that name both devices alone") {
  check(cudaSetDevice(5));
  void *there = nullptr, *plain = nullptr, *here = nullptr;
  {
    const TestStream of_five;
    check(cudaMallocAsync(&there, 24, of_five));
    of_five.wait();
    check(cudaMalloc(&plain, 24));
  }
  check(cudaSetDevice(0));
  const TestStream stream;
  const OnDevice<int> x(std::vector<int>{1, 2, 3, 4, 5, 6});
  check(cudaMallocAsync(&here, 24, stream));
  check(cudaMemcpyAsync(plain, x.data(), 24, cudaMemcpyDefault, stream));
  CHECK(cudaMemcpyAsync(there, x.data(), 24, cudaMemcpyDefault, stream) == cudaErrorInvalidValue);
  CHECK(cudaMemcpyAsync(plain, here, 24, cudaMemcpyDeviceToDevice, stream) == cudaErrorInvalidValue);
  check(cudaMemcpyPeerAsync(there, 5, x.data(), 0, 24, stream));
  std::vector<int> got(6);
  check(cudaMemcpyAsync(got.data(), there, 24, cudaMemcpyDefault, stream));
  CHECK(got == std::vector<int>{1, 2, 3, 4, 5, 6});
  check(cudaFreeAsync(here, stream));
  stream.wait();
  check(cudaSetDevice(5));
  check(cudaFree(there));
  check(cudaFree(plain));
  check(cudaSetDevice(0));
  cudaGetLastError();
}

TEST_CASE("pools: memory is reused in stream order, peaks, trimming, pools of one's own") {
  for_each_seed([] {
    cudaMemPool_t pool = nullptr;
    cudaMemPoolProps properties = {};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location = {cudaMemLocationTypeDevice, 0};
    check(cudaMemPoolCreate(&pool, &properties));
    const TestStream stream, other;
    void *first = nullptr, *second = nullptr, *third = nullptr;
    check(cudaMallocFromPoolAsync(&first, 5000, pool, stream));
    check(fill(stream, static_cast<float*>(first), 1, 1250));
    check(cudaFreeAsync(first, stream));
    check(cudaMallocFromPoolAsync(&second, 5000, pool, stream));
    CHECK(second == first);
    check(fill(stream, static_cast<float*>(second), 2, 1250));
    check(cudaMallocFromPoolAsync(&third, 5000, pool, other));
    CHECK(third != second);
    std::vector<float> got(1250);
    check(cudaMemcpyAsync(got.data(), second, 5000, cudaMemcpyDefault, stream));
    CHECK(got == std::vector<float>(1250, 2));
    std::uint64_t used = 0, reserved = 0, high = 0;
    check(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used));
    check(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &high));
    CHECK(used == 2 * 5120);
    CHECK(high == used);
    check(cudaFreeAsync(second, stream));
    check(cudaFreeAsync(third, other));
    stream.wait();
    other.wait();
    check(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &reserved));
    CHECK(reserved == 2 * 5120);
    check(cudaMemPoolTrimTo(pool, 0));
    check(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &reserved));
    CHECK(reserved == 0);
    check(cudaMemPoolDestroy(pool));
  });
}

TEST_CASE("each wait of the host is counted") {
  const TestStream stream;
  const OnDevice<char> x(100000);
  const InPinned<char> pinned(100000);
  std::vector<char> pageable(100000);
  const auto waits_of = [](auto calls) {
    const std::uint64_t before = emulated_gpu::host_waits();
    calls();
    return emulated_gpu::host_waits() - before;
  };
  CHECK(waits_of([&] {
          check(cudaMemcpyAsync(x.data(), pinned.data(), 100000, cudaMemcpyDefault, stream));
          check(cudaMemcpyAsync(x.data(), pageable.data(), 1000, cudaMemcpyDefault, stream));
          check(cudaMemcpyAsync(pinned.data(), x.data(), 100000, cudaMemcpyDefault, stream));
          check(cudaMemsetAsync(x.data(), 0, 10, stream));
          cudaStreamQuery(stream);
        }) == 0);
  cudaGetLastError();
  CHECK(waits_of([&] {
          check(cudaMemcpyAsync(x.data(), pageable.data(), 100000, cudaMemcpyDefault, stream));
        }) == 1);
  CHECK(waits_of([&] { check(cudaMemcpyAsync(pageable.data(), x.data(), 10, cudaMemcpyDefault, stream)); }) ==
        1);
  CHECK(waits_of([&] { stream.wait(); }) == 1);
  CHECK(waits_of([&] { check(cudaDeviceSynchronize()); }) == 1);
}

TEST_CASE("the k-th call fails with a chosen error, and has no effect") {
  const std::size_t objects = emulated_gpu::live_objects(), bytes = emulated_gpu::live_bytes(0);
  const auto program = [] {
    const TestStream stream;
    const OnDevice<float> x(100);
    check(fill(stream, x.data(), 1, 100));
    stream.wait();
  };
  std::vector<std::string> failed;
  for (std::uint64_t k = 1; failed.empty() || failed.back() != ""; ++k) {
    emulated_gpu::fail_call(k, cudaErrorLaunchOutOfResources);
    std::string text;
    try {
      program();
    } catch (const std::exception& error) {
      text = error.what();
    }
    failed.push_back(emulated_gpu::failed_call());
    const bool releases =
        failed.back() == "" || failed.back() == "cudaFree" || failed.back() == "cudaStreamDestroy";
    CHECK(text == (releases ? "" : "too many resources requested for launch"));
    CHECK(emulated_gpu::live_objects() == objects);
    CHECK(emulated_gpu::live_bytes(0) == bytes);
  }
  emulated_gpu::fail_call(0, cudaSuccess);
  CHECK(failed == std::vector<std::string>{"cudaStreamCreateWithFlags", "cudaMalloc", "cudaLaunchKernel",
                                           "cudaStreamSynchronize", "cudaFree", "cudaStreamDestroy", ""});
  cudaGetLastError();
  emulated_gpu::fail_call(1, cudaErrorECCUncorrectable, true);
  CHECK(cudaSetDevice(0) == cudaErrorECCUncorrectable);
  CHECK(cudaDeviceSynchronize() == cudaErrorECCUncorrectable);
  emulated_gpu::revive(0);
  cudaGetLastError();
}

TEST_CASE("queries of events are counted apart from other calls that fail") {
  using emulated_gpu::Calls;
  cudaEvent_t event = nullptr;
  check(cudaEventCreate(&event));
  emulated_gpu::fail_call(1, cudaErrorInvalidValue, false, Calls::event_queries);
  CHECK(cudaSetDevice(0) == cudaSuccess);
  CHECK(cudaEventQuery(event) == cudaErrorInvalidValue);
  emulated_gpu::fail_call(1, cudaErrorInvalidValue, false, Calls::others);
  CHECK(cudaEventQuery(event) == cudaSuccess);
  CHECK(cudaSetDevice(0) == cudaErrorInvalidValue);
  check(cudaEventDestroy(event));
  cudaGetLastError();
}

TEST_CASE("a device that has failed takes its memory back") {
  const TestStream stream;
  const std::size_t bytes = emulated_gpu::live_bytes(0);
  void* memory = nullptr;
  check(cudaMallocAsync(&memory, 100, stream));
  emulated_gpu::fail_call(1, cudaErrorLaunchFailure, true);
  CHECK(cudaSetDevice(0) == cudaErrorLaunchFailure);
  CHECK(emulated_gpu::has_failed(0));
  CHECK(cudaFreeAsync(memory, stream) == cudaErrorLaunchFailure);
  CHECK(emulated_gpu::live_bytes(0) == bytes);
  emulated_gpu::revive(0);
  cudaGetLastError();
  CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
}

#if !defined(__SANITIZE_ADDRESS__)
TEST_CASE("what is written behind an allocation, or to freed memory, is found when the host waits") {
  const TestStream stream;
  {
    const OnDevice<float> x(100);
    check(fill(stream, x.data(), 1, 103));
    CHECK(cudaStreamSynchronize(stream) == cudaErrorIllegalAddress);
    CHECK(contains(only_problem(), "of 400 bytes on gpu(0) was overwritten, 0 bytes after its end"));
    check(fill(stream, x.data() - 2, 1, 1));
    CHECK(cudaStreamSynchronize(stream) == cudaErrorIllegalAddress);
    CHECK(contains(only_problem(), "memory in front of allocation"));
  }
  emulated_gpu::revive(0);
  emulated_gpu::take_problems();
  void* memory = nullptr;
  check(cudaMallocAsync(&memory, 7000, stream));
  check(cudaFreeAsync(memory, stream));
  check(fill(stream, static_cast<float*>(memory) + 5, 1, 1));
  CHECK(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
  CHECK(contains(only_problem(), "freed memory was written: byte 20 of allocation"));
}
#endif

#if !defined(__SANITIZE_ADDRESS__)
TEST_CASE("cudaFree does not wait for work that uses memory of a pool") {
  emulated_gpu::Settings settings = emulated_gpu::settings();
  settings.stepped = true;
  emulated_gpu::configure(settings);
  {
    const TestStream stream;
    void* memory = nullptr;
    check(cudaMallocAsync(&memory, 4000, stream));
    stream.wait();
    const std::uint64_t waits = emulated_gpu::host_waits();
    check(fill(stream, static_cast<float*>(memory), 1, 1000));
    check(cudaFree(memory));
    CHECK(emulated_gpu::host_waits() == waits);
    CHECK(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
    CHECK(contains(only_problem(), "freed memory was written"));
  }
  settings.stepped = false;
  emulated_gpu::configure(settings);
}
#endif

TEST_CASE("a copy from memory that another stream has freed meanwhile is found") {
  emulated_gpu::Settings settings = emulated_gpu::settings();
  settings.stepped = true;
  emulated_gpu::configure(settings);
  {
    const TestStream first, second;
    const InPinned<char> out(100);
    std::atomic<int> steps{0};
    void* memory = nullptr;
    check(cudaMallocAsync(&memory, 100, first));
    check(cudaFreeAsync(memory, first));
    first.wait();
    check(cudaMallocAsync(&memory, 100, first));
    first.wait();
    check(cudaMemcpyAsync(out.data(), memory, 100, cudaMemcpyDefault, second));
    check(cudaFreeAsync(memory, first));
    cudaEvent_t event = nullptr;
    check(cudaEventCreate(&event));
    check(cudaEventRecord(event, first));
    // Steps in the natural order: those of the first stream come first.
    CHECK(cudaEventSynchronize(event) == cudaSuccess);
    CHECK(cudaStreamSynchronize(second) == cudaErrorIllegalAddress);
    CHECK(contains(only_problem(), "a copy uses allocation"));
    check(cudaEventDestroy(event));
  }
  settings.stepped = false;
  emulated_gpu::configure(settings);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_CASE("a process that is forked after the first call cannot use CUDA") {
  check(cudaSetDevice(0));
  const pid_t child = fork();
  if (child == 0) _exit(cudaSetDevice(0));
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == cudaErrorInitializationError);
}

TEST_CASE("the host that reads memory of a device faults, and is told") {
  int pipes[2];
  REQUIRE(pipe(pipes) == 0);
  const OnDevice<int> x(100);
  check(cudaDeviceSynchronize());
  const pid_t child = fork();
  if (child == 0) {
    dup2(pipes[1], 2);
    const volatile int* at = x.data() + 7;
    _exit(*at);
  }
  close(pipes[1]);
  std::string text(1000, ' ');
  const ssize_t got = read(pipes[0], text.data(), text.size());
  text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  close(pipes[0]);
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WIFSIGNALED(status));
  CHECK(contains(text, "the host uses memory of a device"));
  CHECK(contains(text, "byte 28 of allocation"));
}
#endif

}  // namespace
}  // namespace heddle::test
