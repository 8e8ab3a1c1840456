// What the engine's calls of CUDA do to the process and to other libraries in it: the emulated GPU tells.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime_api.h>
#include <emulated_gpu.h>
#include <exception>
#include <future>
#include <malloc.h>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>

#include <doctest/doctest.h>

#include <heddle/engine.h>
#include <heddle/error.h>
#include <heddle/gpu_memory.h>
#include <heddle/stream.h>
#include <heddle/stream_ops.h>

#include "kernels.h"

namespace heddle::test {
namespace {

// Ends the process if fn does not return: nothing else ends a deadlock.
template <class F> void returns(const char* what, F fn) {
  std::future<void> ended = std::async(std::launch::async, std::move(fn));
  if (ended.wait_for(std::chrono::seconds(30)) != std::future_status::ready) {
    std::fprintf(stderr, "%s does not return\n", what);
    std::_Exit(1);
  }
  ended.get();
}

// Something that happens once.
class Once {
 public:
  void happens() {
    happened_ = true;
    happened_.notify_all();
  }
  void await() const { happened_.wait(false); }

 private:
  std::atomic<bool> happened_{false};
};

TEST_CASE("a stream's work frees page-locked memory while a thread waits to unlock some") {
  std::byte* const kept = gpu_allocate_pinned(4096);
  std::byte* const used = gpu_allocate_pinned(4096);
  gpu_free_pinned(kept);
  const auto stream = make_stream(gpu(0));
  stream->begin();
  Once waits;
  stream->enqueue([&] {
    waits.await();
    gpu_free_pinned(used);
  });
  const std::uint64_t before = emulated_gpu::host_waits();
  returns("an allocation of page-locked memory", [&] {
    std::thread watch([&] {
      while (emulated_gpu::host_waits() == before) std::this_thread::yield();
      waits.happens();
    });
    CHECK(gpu_allocate_pinned(std::size_t{1} << 50) ==
          nullptr);  // unlocks what is kept, which waits for all GPUs
    watch.join();
  });
}

TEST_CASE("page-locked memory goes back to the system when it is trimmed, or when much is kept") {
  gpu_memory_trim(cpu_pinned());
  const auto stream = make_stream(gpu(0));
  stream->begin();
  gpu_free(gpu_allocate(*stream, *stream, 1 << 20));
  REQUIRE(cudaStreamSynchronize(static_cast<cudaStream_t>(stream->native())) == cudaSuccess);
  const std::size_t of_gpu = gpu_memory_stats(gpu(0)).cached;
  CHECK(of_gpu >= std::size_t{1} << 20);
  gpu_free_pinned(gpu_allocate_pinned(100));
  CHECK(gpu_memory_stats(cpu_pinned()).cached == 4096);
  gpu_memory_trim(cpu_pinned());
  CHECK(gpu_memory_stats(cpu_pinned()).cached == 0);
  CHECK(gpu_memory_stats(gpu(0)).cached == of_gpu);
  for (const std::size_t mebibytes :
       {std::size_t{10}, std::size_t{30}, std::size_t{90}, std::size_t{270}}) {  // none fits the next request
    gpu_free_pinned(gpu_allocate_pinned(mebibytes << 20));
  }
  CHECK(gpu_memory_stats(cpu_pinned()).cached == std::size_t{400} << 20);
  gpu_free_pinned(gpu_allocate_pinned(std::size_t{1} << 20));
  CHECK(gpu_memory_stats(cpu_pinned()).cached == std::size_t{1} << 20);
  gpu_memory_trim(gpu(0));
}

TEST_CASE("memory is freed behind a full queue without holding up other GPUs") {
  emulated_gpu::Settings settings = emulated_gpu::settings();
  settings.queue = 4;
  emulated_gpu::configure(settings);
  {
    const auto full = make_stream(gpu(0)), other = make_stream(gpu(1));
    full->begin();
    std::byte* const memory = gpu_allocate(*full, *full, 100);
    Once goes_on;
    full->enqueue([&] { goes_on.await(); });
    for (int i = 0; i < 3; ++i) full->enqueue([] {});
    std::thread frees([&] { gpu_free(memory); });
    while (emulated_gpu::waiting_for_room() == 0) std::this_thread::yield();
    returns("an allocation on another GPU", [&] {
      other->begin();
      gpu_free(gpu_allocate(*other, *other, 100));
    });
    goes_on.happens();
    frees.join();
  }
  settings.queue = 0;
  emulated_gpu::configure(settings);
}

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_CASE("ops on a lost GPU keep no memory") {
  {
    Engine engine({.scheduler = Scheduler::naive});
    Stream& compute = engine.stream(gpu(7));
    const auto push = [&](int count) {
      for (int i = 0; i < count; ++i) engine.push_on(compute, [](Stream&) {}, {});
      try {
        engine.wait_all();
      } catch (const std::exception&) {
      }
    };
    push(1);
    cudaSetDevice(7);
    emulated_gpu::fail_call(1, cudaErrorLaunchFailure, true);
    CHECK(cudaSetDevice(7) == cudaErrorLaunchFailure);
    push(200);
    const std::size_t before = mallinfo2().uordblks;
    push(2000);
    CHECK(mallinfo2().uordblks < before + 2000 * 50);
    emulated_gpu::revive(7);
    cudaSetDevice(0);
    cudaGetLastError();
  }
  emulated_gpu::take_problems();
}
#endif

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_CASE("a forked process frees no GPU's memory, and says why it has no GPU") {
  const auto stream = make_stream(gpu(0));
  stream->begin();
  std::byte* const memory = gpu_allocate(*stream, *stream, 100);
  std::byte* const pinned = gpu_allocate_pinned(100);
  const pid_t child = fork();
  if (child == 0) {
    const std::uint64_t before = emulated_gpu::calls();
    gpu_free(memory);
    gpu_free_pinned(pinned);
    if (emulated_gpu::calls() != before) _exit(1);
    try {
      gpu_count();
    } catch (const Error& error) {
      _exit(std::string(error.what()).find("spawn") == std::string::npos ? 2 : 0);
    }
    _exit(3);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  gpu_free(memory);
  gpu_free_pinned(pinned);
  CHECK(gpu_count() == 8);
}
#endif

TEST_CASE("memory comes from a pool of the engine's own") {
  const auto stream = make_stream(gpu(4));
  stream->begin();
  std::byte* const memory = gpu_allocate(*stream, *stream, 100);
  cudaMemPool_t pool = nullptr;
  REQUIRE(cudaDeviceGetDefaultMemPool(&pool, 4) == cudaSuccess);
  std::uint64_t threshold = 1, used = 1;
  CHECK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold) == cudaSuccess);
  CHECK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used) == cudaSuccess);
  CHECK(threshold == 0);
  CHECK(used == 0);
  gpu_free(memory);
  cudaSetDevice(0);
}

TEST_CASE(
    "a kernel that has too little memory at its launch is launched again, with what the pool has kept") {
  Engine engine({.workers = 1});
  Stream& compute = engine.stream(gpu(5));
  const Var x = engine.new_var();
  constexpr int kCount = 100;
  int values[kCount] = {};
  std::string failed;
  std::size_t kept = 1;
  gpu_free(gpu_allocate_for_all(compute, 1 << 20));
  engine.push_on(compute,
                 [&](Stream& stream) {
                   std::byte* const memory = gpu_allocate(stream, stream, sizeof values);
                   auto* const numbers = reinterpret_cast<int*>(memory);
                   emulated_gpu::fail_call(1, cudaErrorMemoryAllocation);
                   affine(stream.native(), numbers, numbers, kCount, 0, 7);
                   failed = emulated_gpu::failed_call();
                   kept = gpu_memory_stats(gpu(5)).cached;
                   stream.copy(values, numbers, sizeof values);
                   gpu_free(memory);
                 },
                 {.mutate = {x}});
  CHECK_NOTHROW(engine.wait(x));
  CHECK(failed == "cudaLaunchKernel");
  CHECK(kept < 1 << 20);
  CHECK(values[kCount - 1] == 7);
}

TEST_CASE("a capture of another library and the engine's work do not disturb each other") {
  for (const Scheduler scheduler : {Scheduler::threaded, Scheduler::naive}) {
    Engine engine({.scheduler = scheduler, .workers = 2});
    Stream& compute = engine.stream(gpu(0));
    Var x = engine.new_var();
    cudaStream_t theirs = nullptr;
    REQUIRE(cudaStreamCreateWithFlags(&theirs, cudaStreamNonBlocking) == cudaSuccess);
    REQUIRE(cudaStreamBeginCapture(theirs, cudaStreamCaptureModeGlobal) == cudaSuccess);
    int calls = 0;
    for (int i = 0; i < 5; ++i)
      engine.push_on(compute, [&calls](Stream& stream) { stream.enqueue([&calls] { ++calls; }); },
                     {.mutate = {x}});
    CHECK_NOTHROW(engine.wait(x));
    CHECK(calls == 5);
    gpu_free(gpu_allocate_for_all(compute, 100));
    std::byte* const pinned = gpu_allocate_pinned(std::size_t{3} << 20);
    CHECK(pinned);
    gpu_free_pinned(pinned);
    cudaGraph_t graph = nullptr;
    CHECK(cudaStreamEndCapture(theirs, &graph) == cudaSuccess);
    if (graph) cudaGraphDestroy(graph);
    cudaStreamDestroy(theirs);
    cudaGetLastError();
  }
}

}  // namespace
}  // namespace heddle::test
