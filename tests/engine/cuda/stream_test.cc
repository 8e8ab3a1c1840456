// Streams of a GPU keep the ordering rules that fence_test.cc tests, also with work that really overlaps.
#include <atomic>
#include <cuda_runtime_api.h>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/engine.h>
#include <heddle/error.h>
#include <heddle/stream.h>
#include <heddle/stream_ops.h>

#include "kernels.h"
#include "stream/stream_work.h"
#include "streams/stream_program.h"
#include "streams/stream_rig.h"

namespace heddle::test {
namespace {

#if defined(__SANITIZE_THREAD__)
constexpr int kCount = 1 << 11;  // on the emulated GPU each element has a thread of ThreadSanitizer's
#else
constexpr int kCount = 1 << 16;
#endif
// GPU clock ticks for which a kernel keeps busy: some tenths of a millisecond, so that work that starts too
// early is noticed.
constexpr long long kBusy = 200000;

void check(cudaError_t status) {
  if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
}

// Memory with a FenceSet, which keeps the fences of the ops that use the memory.
class Buffer {
 public:
  Buffer(int* memory, cudaError_t (*free)(void*)) : memory_(memory), free_(free) {}
  ~Buffer() { free_(memory_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  int* data() const { return memory_; }
  FenceSet var;

 private:
  int* memory_;
  cudaError_t (*free_)(void*);
};

int* allocated(cudaError_t (*allocate)(void**, std::size_t)) {
  void* memory = nullptr;
  check(allocate(&memory, kCount * sizeof(int)));
  return static_cast<int*>(memory);
}

struct OnGpu : Buffer {
  OnGpu() : Buffer(allocated([](void** to, std::size_t bytes) { return cudaMalloc(to, bytes); }), cudaFree) {}
};
struct Pinned : Buffer {
  Pinned()
      : Buffer(allocated([](void** to, std::size_t bytes) { return cudaMallocHost(to, bytes); }),
               cudaFreeHost) {}
};

// A rig with a stream for each lane of one GPU.
struct Gpu : StreamRig {
  Gpu() {
    for (Lane lane : {Lane::compute, Lane::copy_in, Lane::copy_out}) add(make_stream(gpu(0), lane));
  }
};
constexpr std::size_t kCompute = 0, kCopyIn = 1, kCopyOut = 2;

void await(const Fence& fence) {
  auto done = std::make_shared<std::atomic<bool>>(false);
  fence->when_done([done] {
    *done = true;
    done->notify_one();
  });
  done->wait(false);
}

void await(FenceSet& var) {
  auto done = std::make_shared<std::atomic<bool>>(false);
  when_free(var, true, true, [done] {
    *done = true;
    done->notify_one();
  });
  done->wait(false);
}

TEST_CASE("an op is issued while its work is still running, and done when that has ended") {
  Gpu gpu;
  Pinned flag;
  flag.data()[0] = 0;
  const Fence fence = gpu.issue(kCompute, "wait", {}, {&flag.var},
                                [&](Stream& stream) { wait_for_host(stream.native(), flag.data()); });
  const Fence behind = gpu.issue(kCopyOut, "behind", {&flag.var}, {}, [](Stream&) {});
  CHECK_FALSE(fence->done());
  CHECK_FALSE(behind->done());
  std::atomic_ref(flag.data()[0]).store(1);
  await(behind);
  CHECK(fence->done());
  CHECK(story(fence->failure()) == "well");
}

TEST_CASE("copy in, compute and copy out on three lanes leave what serial execution leaves") {
  Gpu gpu;
  Pinned in, out;
  OnGpu a, b;
  constexpr std::size_t kBytes = kCount * sizeof(int);
  for (int round = 0; round < 50; ++round) {
    await(in.var);
    std::iota(in.data(), in.data() + kCount, round);
    in.var.clear();
    gpu.issue(kCopyIn, "in", {&in.var}, {&a.var}, [&](Stream& s) { s.copy(a.data(), in.data(), kBytes); });
    gpu.issue(kCompute, "double", {&a.var}, {&b.var},
              [&](Stream& s) { affine(s.native(), b.data(), a.data(), kCount, 2, round, kBusy); });
    // Overwrites memory that "double" may still read, so the copy has to wait for "double".
    gpu.issue(kCopyIn, "again", {&in.var}, {&a.var}, [&](Stream& s) { s.copy(a.data(), in.data(), kBytes); });
    gpu.issue(kCompute, "add", {&a.var, &b.var}, {&b.var},
              [&](Stream& s) { affine(s.native(), b.data(), b.data(), kCount, 3, 1); });
    gpu.issue(kCopyOut, "out", {&b.var}, {&out.var},
              [&](Stream& s) { s.copy(out.data(), b.data(), kBytes); });
    await(out.var);
    int wrong = 0;
    for (int i = 0; i < kCount; ++i) wrong += out.data()[i] != (2 * (i + round) + round) * 3 + 1;
    CHECK(wrong == 0);
  }
  CHECK(gpu.issuer(kCompute).events().size() < 10);  // events are reused
}

TEST_CASE("random programs on a GPU's streams leave what serial execution leaves") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    CAPTURE(seed);
    const StreamProgram program = random_stream_program(seed, 300, 12, 5);
    std::vector<std::unique_ptr<Stream>> streams;
    for (int i = 0; i < 4; ++i) streams.push_back(make_stream(gpu(i % gpu_count())));
    // GPUs' streams cannot wait for a stream of the CPU, nor the other way round.
    streams.push_back(make_stream(cpu(1)));
    CHECK((run_on_streams(program, std::move(streams), seed) == run_serially(program)));
  }
}

TEST_CASE("a kernel that cannot be launched fails its op and no other") {
  Gpu gpu;
  OnGpu a, b;
  const Fence bad =
      gpu.issue(kCompute, "bad", {}, {&a.var}, [&](Stream& s) { unlaunchable(s.native(), a.data()); });
  const Fence reads = gpu.issue(kCopyOut, "reads", {&a.var}, {}, [](Stream&) {});
  const Fence good = gpu.issue(kCompute, "good", {}, {&b.var},
                               [&](Stream& s) { affine(s.native(), b.data(), b.data(), kCount, 0, 1); });
  await(reads);
  await(good);
  CHECK(bad->done());
  CHECK(story(bad->failure()).starts_with("bad: a launch on gpu(0): "));
  CHECK(story(reads->failure()).ends_with(" > reads"));
  CHECK(story(good->failure()) == "well");
}

TEST_CASE("an exception out of a function on a GPU's stream fails its op and what read it") {
  Gpu gpu;
  FenceSet x, y;
  gpu.run(kCompute, "bad", {}, {&x}, [] { throw std::runtime_error("overflow"); });
  const Fence next = gpu.run(kCopyOut, "next", {&x}, {&y}, [] {});
  await(next);
  CHECK(story(next->failure()) == "bad: overflow > next");
}

TEST_CASE("what a function on a GPU's stream holds ends outside of CUDA's callback, before its op is done") {
  Gpu gpu;
  FenceSet x;
  bool ended = false, in_callback = false;
  std::shared_ptr<int> held(new int(0), [&](const int* made) {
    delete made;
    ended = true;
    in_callback = detail::InStreamWork::here();
  });
  const Fence fence = gpu.issue(kCompute, "holds", {}, {&x}, [&](Stream& s) {
    s.enqueue([held = std::exchange(held, nullptr)] { (void)held; });
  });
  await(fence);
  CHECK(ended);
  CHECK_FALSE(in_callback);
}

TEST_CASE("a check is called once an op's work has run, and fails the op and what read it") {
  Gpu gpu;
  OnGpu a, b;
  Pinned seen;
  int calls = 0;
  *seen.data() = 0;
  const Fence bad = gpu.issue(kCompute, "bad", {}, {&a.var}, [&](Stream& s) {
    affine(s.native(), a.data(), a.data(), kCount, 0, 5);
    // The check is given before the copy, and called when that has run, too.
    s.check_when_done([&] {
      ++calls;
      if (*seen.data() == 5) throw std::runtime_error("a five");
    });
    s.check_when_done([&] {
      ++calls;
      throw std::runtime_error("a second error");
    });
    s.copy(seen.data(), a.data(), sizeof(int));
  });
  const Fence reads = gpu.issue(kCompute, "reads", {&a.var}, {}, [](Stream&) {});
  const Fence good = gpu.issue(kCompute, "good", {}, {&b.var}, [&](Stream& s) {
    affine(s.native(), b.data(), b.data(), kCount, 0, 1);
    s.check_when_done([&] { ++calls; });
  });
  await(reads);
  await(good);
  CHECK(story(bad->failure()) == "bad: a five");
  CHECK(story(reads->failure()) == "bad: a five > reads");
  CHECK(story(good->failure()) == "well");
  CHECK(calls == 3);
}

TEST_CASE("a GPU that is not there is refused") {
  CHECK_THROWS_AS(make_stream(gpu(gpu_count())), Error);
  CHECK(make_stream(gpu(0))->native() != nullptr);
}

// Skipped by default and run in a separate process, which cannot use the GPU after the kernel's failure.
TEST_CASE("a kernel that fails while it runs fails its op and all after it, and nothing hangs" *
          doctest::skip()) {
  Gpu gpu;
  FenceSet x, y, z;
  const Fence before = gpu.run(kCompute, "before", {}, {&z}, [] {});
  await(before);
  // Makes the copy lane create its event while the GPU still works.
  await(gpu.run(kCopyOut, "an event for its lane", {}, {&y}, [] {}));
  const Fence bad = gpu.issue(kCompute, "bad", {}, {&x}, [](Stream& s) { trap(s.native()); });
  await(bad);
  const Fence reads = gpu.run(kCopyOut, "reads", {&x}, {&y}, [] {});
  await(reads);
  CHECK(story(before->failure()) == "well");
  CHECK(story(bad->failure()).starts_with("bad: "));
  CHECK(story(reads->failure()).ends_with(" > reads"));
  try {
    const Fence other = gpu.run(kCompute, "other", {}, {&z}, [] {});
    await(other);
    CHECK(story(other->failure()) != "well");
  } catch (const Error& error) {
    // No event: CUDA can create none on the lost GPU.
    CHECK(std::string(error.what()).find("gpu(0)") != std::string::npos);
  }
}

// Skipped by default and run in a separate process, which cannot use the GPU after a kernel's failure.
TEST_CASE("an engine that has lost its GPU ends every op, names the cause, and goes on without it" *
          doctest::skip()) {
  Engine engine({.workers = 2});
  Stream& compute = engine.stream(gpu(0));
  // A lane that has created no event before the GPU is lost.
  Stream& copies = engine.stream(gpu(0), Lane::copy_out);
  Var x = engine.new_var(), y = engine.new_var(), z = engine.new_var(), on_cpu = engine.new_var();
  const auto message = [&](const Var& var) -> std::string {
    try {
      engine.wait(var);
    } catch (const std::exception& error) {
      return error.what();
    }
    return "";
  };
  engine.push_on(compute, [](Stream& s) { trap(s.native()); }, {.mutate = {x}, .name = "bad"});
  engine.push_on(copies, [](Stream&) {}, {.read = {x}, .mutate = {y}, .name = "reads at once"});
  CHECK(message(x).find("gpu(0)") != std::string::npos);
  CHECK(message(y).find("gpu(0)") != std::string::npos);
  int ran = 0;
  for (int i = 0; i < 20; ++i) {
    engine.push_on(i % 2 ? compute : copies, [](Stream&) {}, {.mutate = {z}, .name = "later"});
    engine.push([&ran] { ++ran; }, {.mutate = {on_cpu}});
  }
  CHECK(message(z).find("gpu(0)") != std::string::npos);
  CHECK(message(on_cpu) == "");
  CHECK(ran == 20);
  CHECK_THROWS_AS(engine.wait_all(), std::exception);
}

}  // namespace
}  // namespace heddle::test
