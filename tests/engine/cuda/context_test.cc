// A program that uses one GPU makes no context on another one, and its threads keep their current GPU. A process of its own:
// contexts stay for ever.
#include <atomic>
#include <cstdlib>
#include <cuda_runtime_api.h>
#include <emulated_gpu.h>
#include <thread>
#include <utility>

#include <doctest/doctest.h>

#include <heddle/engine.h>
#include <heddle/gpu_event.h>
#include <heddle/gpu_memory.h>
#include <heddle/stream_ops.h>

namespace heddle::test {
namespace {

int current_device() {
  int device = -1;
  cudaGetDevice(&device);
  return device;
}

void work_on(Device device, Scheduler scheduler) {
  Engine engine({.scheduler = scheduler, .workers = 2});
  Var x = engine.new_var();
  Stream& compute = engine.stream(device);
  std::byte* memory = nullptr;
  for (int i = 0; i < 3; ++i) {
    engine.push_on(compute,
                   [&](Stream& stream) {
                     stream.enqueue([] {});
                     if (!memory) memory = gpu_allocate(stream, stream, 100);
                   },
                   {.mutate = {x}});
  }
  engine.push_on(engine.stream(device, Lane::copy_out), [](Stream&) {}, {.read = {x}});
  engine.wait(x);
  engine.wait_all();
  gpu_free(memory);
  gpu_free(gpu_allocate_for_all(compute, 100));
  std::thread([] { gpu_free_pinned(gpu_allocate_pinned(100)); }).join();
  std::thread([&] {
    GpuEvent event(device);
    event.record(compute.native());
    CHECK(event.try_record(compute.native()));
    event.hold(compute.native());
    event.wait();
    CHECK_FALSE(gpu_with(&event));
    CHECK_FALSE(is_page_locked(&event, sizeof event));
  }).join();
  CHECK(gpu_memory_stats(device).in_use == 0);
  gpu_memory_trim(device);
  CHECK(gpu_allocate_pinned(std::size_t{1} << 50) == nullptr);
}

TEST_CASE("a program that uses one GPU touches no other one" * doctest::skip()) {
  REQUIRE(emulated_gpu::contexts() == 0);
  CHECK(gpu_count() == 8);
  CHECK(emulated_gpu::contexts() == 0);
  for (const Scheduler scheduler : {Scheduler::threaded, Scheduler::naive}) {
    work_on(gpu(3), scheduler);
    CHECK(emulated_gpu::contexts() == 1u << 3);
  }
}

TEST_CASE("threads of the program keep their current GPU") {
  cudaSetDevice(2);
  for (const Scheduler scheduler : {Scheduler::threaded, Scheduler::naive}) {
    work_on(gpu(1), scheduler);
    CHECK(current_device() == 2);
  }
  cudaSetDevice(0);
}

}  // namespace
}  // namespace heddle::test
