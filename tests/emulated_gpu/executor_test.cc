// What a CUDA thread may do, on fibers: each operation, in every order of threads, and each wrong use.
#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "emulated_gpu.h"
#include "gpu/kernel.h"
#include "samples/memory.h"
#include "samples/seeds.h"

namespace heddle::test {
namespace {

using on_gpu::Thread;

template <class K> cudaError_t run(const K& kernel, dim3 grid, dim3 block, std::size_t shared = 0) {
  const TestStream stream;
  const cudaError_t launched = on_gpu::launch(stream, grid, block, shared, kernel);
  return launched == cudaSuccess ? cudaStreamSynchronize(stream) : launched;
}

// Runs a kernel that fails; returns what was found.
template <class K> std::string problem_of(const K& kernel, cudaError_t error, unsigned threads = 64) {
  CHECK(run(kernel, 2, threads, 64) == error);
  CHECK(cudaDeviceSynchronize() == error);
  void* memory = nullptr;
  CHECK(cudaMalloc(&memory, 4) == error);
  cudaGetLastError();
  emulated_gpu::revive(0);
  const std::vector<std::string> found = emulated_gpu::take_problems();
  REQUIRE(found.size() == 1);
  return found[0];
}

bool contains(const std::string& text, const std::string& part) {
  const bool found = text.find(part) != std::string::npos;
  if (!found) MESSAGE(text);
  return found;
}

struct Index {
  int* out;
  void operator()(Thread& thread) const { out[thread.global_index()] = thread.rank(); }
};

struct OrderOf {
  int *next, *order;
  void operator()(Thread& thread) const {
    order[on_gpu::atomic_add(next, 1)] = static_cast<int>(thread.global_index());
  }
};

TEST_CASE("the order of threads and blocks is a function of the seed") {
  const auto order_with = [](std::uint64_t seed) {
    emulated_gpu::Settings settings = emulated_gpu::settings();
    settings.seed = seed;
    emulated_gpu::configure(settings);
    const OnDevice<int> next(std::vector<int>{0}), order(4 * 64);
    const TestStream stream;
    check(on_gpu::launch(stream, 4, 64, 0, OrderOf{next.data(), order.data()}));
    settings.seed = 0;
    emulated_gpu::configure(settings);
    return order.values(stream);
  };
  std::vector<int> natural(256);
  std::iota(natural.begin(), natural.end(), 0);
  CHECK(order_with(0) == natural);
  const std::vector<int> first = order_with(1), second = order_with(2);
  CHECK(first != natural);
  CHECK(first != second);
  CHECK(std::is_permutation(first.begin(), first.end(), natural.begin()));
}

struct BigShared {
  int* out;
  void operator()(Thread& thread) const {
    HEDDLE_SHARED(thread, fixed, int[64]);
    int* dynamic = thread.dynamic_shared<int>();
    fixed[thread.rank()] = thread.rank();
    dynamic[10000 + thread.rank()] = 2 * thread.rank();
    thread.barrier();
    const int other = 63 - thread.rank();
    out[thread.rank()] = fixed[other] + dynamic[10000 + other];
  }
};

TEST_CASE("shared memory, static and dynamic, and its limits") {
  const OnDevice<int> out(64);
  const TestStream stream;
  CHECK(on_gpu::launch(stream, 1, 64, 60000, BigShared{out.data()}) == cudaErrorInvalidValue);
  CHECK(cudaGetLastError() == cudaErrorInvalidValue);
  CHECK(on_gpu::allow_shared<BigShared>(300 << 10) == cudaErrorInvalidValue);
  cudaGetLastError();
  check(on_gpu::allow_shared<BigShared>(60000));
  check(on_gpu::launch(stream, 1, 64, 60000, BigShared{out.data()}));
  const std::vector<int> got = out.values(stream);
  for (int i = 0; i < 64; ++i) CHECK(got[static_cast<std::size_t>(i)] == 3 * (63 - i));
  // Another device has a limit of its own.
  cudaStream_t elsewhere = nullptr;
  check(cudaSetDevice(1));
  check(cudaStreamCreate(&elsewhere));
  CHECK(on_gpu::launch(elsewhere, 1, 64, 60000, BigShared{out.data()}) == cudaErrorInvalidValue);
  cudaGetLastError();
  check(cudaStreamDestroy(elsewhere));
  check(cudaSetDevice(0));
}

TEST_CASE("launches that a GPU refuses") {
  const OnDevice<int> out(1);
  const Index kernel{out.data()};
  for (const auto& [grid, block] : {std::pair{dim3(1), dim3(1025)},
                                    {dim3(1), dim3(0)},
                                    {dim3(0), dim3(1)},
                                    {dim3(1, 70000), dim3(1)},
                                    {dim3(1), dim3(1, 1, 65)},
                                    {dim3(1), dim3(64, 32)}}) {
    CHECK(run(kernel, grid, block) == cudaErrorInvalidConfiguration);
    CHECK(cudaPeekAtLastError() == cudaErrorInvalidConfiguration);
    CHECK(cudaGetLastError() == cudaErrorInvalidConfiguration);
    CHECK(cudaGetLastError() == cudaSuccess);
  }
  CHECK(cudaLaunchKernel(nullptr, 1, 1, nullptr, 0, nullptr) == cudaErrorInvalidDeviceFunction);
  cudaGetLastError();
  cudaStream_t elsewhere = nullptr;
  check(cudaSetDevice(1));
  check(cudaStreamCreate(&elsewhere));
  check(cudaSetDevice(0));
  CHECK(on_gpu::launch(elsewhere, 1, 1, 0, kernel) == cudaErrorInvalidResourceHandle);
  cudaGetLastError();
  check(cudaStreamDestroy(elsewhere));
}

struct HalfWaits {
  void operator()(Thread& thread) const {
    if (thread.rank() < 16) {
      thread.barrier();
    } else {
      thread.warp_barrier(0xffffffff);
    }
  }
};
struct TwoBarriers {
  void operator()(Thread& thread) const {
    if (thread.rank() < 40) {
      thread.barrier();
    } else {
      thread.barrier();
    }
  }
};
struct SomeEnd {
  void operator()(Thread& thread) const {
    if (thread.rank() >= 60) return;
    thread.barrier();
  }
};
struct WrongMask {
  void operator()(Thread& thread) const { thread.ballot(true, 0x7fffffff); }
};
struct ReadsNobody {
  void operator()(Thread& thread) const {
    if (thread.lane() < 8) thread.shuffle(1, 20, 0xff);
  }
};

TEST_CASE("a divergent barrier names the kernel, the block and the threads") {
  const std::string half = problem_of(HalfWaits{}, cudaErrorLaunchFailure);
  CHECK(contains(half, "HalfWaits, block ("));
  CHECK(contains(half, "; threads 0-15 wait at the barrier at "));
  CHECK(contains(half, "divergent barrier: threads 32-63 have ended; "));
  CHECK(
      contains(half, "; threads 16-31 wait for lanes of their warp at tests/emulated_gpu/executor_test.cc:"));
  CHECK(contains(problem_of(TwoBarriers{}, cudaErrorLaunchFailure), "divergent barrier"));
  const std::string some = problem_of(SomeEnd{}, cudaErrorLaunchFailure);
  CHECK(contains(some, "threads 60-63 have ended; threads 0-59 wait at the barrier at "));
}

TEST_CASE("masks and lanes of a warp that do not fit are errors") {
  CHECK(contains(problem_of(WrongMask{}, cudaErrorLaunchFailure), "its lane is not in the mask"));
  CHECK(contains(problem_of(ReadsNobody{}, cudaErrorLaunchFailure),
                 "a shuffle reads lane 20, which takes no part"));
}

struct Throws {
  void operator()(Thread& thread) const {
    if (thread.global_index() == 70) throw std::runtime_error("no such kind");
  }
};
struct Traps {
  void operator()(Thread& thread) const {
    if (thread.rank() == 63) thread.trap();
  }
};

TEST_CASE("an exception and a trap are sticky errors of the device, and other devices go on") {
  CHECK(contains(problem_of(Throws{}, cudaErrorLaunchFailure),
                 "block (1,0,0), thread (6,0,0): an exception: no such kind"));
  CHECK(contains(problem_of(Traps{}, cudaErrorLaunchFailure), "thread (63,0,0): a trap"));
  const TestStream stream;
  check(on_gpu::launch(stream, 1, 64, 0, Traps{}));
  CHECK(cudaStreamSynchronize(stream) == cudaErrorLaunchFailure);
  CHECK(cudaSetDevice(0) == cudaErrorLaunchFailure);
  CHECK(cudaGetLastError() == cudaErrorLaunchFailure);
  check(cudaSetDevice(1));
  const OnDevice<int> out(64);
  const TestStream other;
  check(on_gpu::launch(other, 1, 64, 0, Index{out.data()}));
  CHECK(out.values(other)[63] == 63);
  emulated_gpu::revive(0);
  emulated_gpu::take_problems();
  check(cudaSetDevice(0));
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
struct Faults {
  int* out;
  int divisor;
  void operator()(Thread& thread) const {
    if (thread.rank() == 5) *out = 7 / divisor;
  }
};
struct WritesBehindShared {
  void operator()(Thread& thread) const { thread.dynamic_shared<int>()[thread.rank()] = 1; }
};

// The sanitizers end the process instead.
TEST_CASE("faults of a kernel, and writes behind its shared memory, are sticky errors") {
  CHECK(contains(problem_of(Faults{nullptr, 1}, cudaErrorIllegalAddress),
                 "thread (5,0,0): an access to (nil)"));
  int host = 0;
  CHECK(contains(problem_of(Faults{&host, 0}, cudaErrorIllegalAddress), "a division by zero"));
  alignas(8) char bytes[12] = {};
  CHECK(contains(problem_of(Faults{reinterpret_cast<int*>(bytes + 2), 1}, cudaErrorMisalignedAddress),
                 "thread (5,0,0): an access to an address that is no multiple of its size"));
  CHECK(contains(problem_of(WritesBehindShared{}, cudaErrorIllegalAddress),
                 "a thread wrote behind the shared variable 'dynamic' of 64 bytes"));
}
#endif

}  // namespace
}  // namespace heddle::test
