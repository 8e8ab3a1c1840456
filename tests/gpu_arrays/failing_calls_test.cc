// A program on two GPUs in which one call of CUDA fails, for every call: each array has the right values or an error that names
// the call, nothing is leaked, and the same program then succeeds. If a GPU is lost, all else goes on.
//
// HEDDLE_FAILING_CALLS=N makes each Nth call fail, in place of each tenth.
#include <cstdlib>
#include <cuda_runtime_api.h>
#include <emulated_gpu.h>
#include <filesystem>
#include <functional>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/autograd.h>
#include <heddle/elementwise.h>
#include <heddle/engine.h>
#include <heddle/gpu_memory.h>
#include <heddle/ndarray.h>

#include "problems.h"

using namespace heddle;

namespace {

constexpr std::int64_t kSize = 300, kHuge = std::int64_t{1} << 42;

struct Result {
  std::string name;
  std::vector<float> values;
  std::string error;  // "" if the values could be read
};

// Makes arrays, and notes what each call throws. What is computed from an array that was not made is not made either.
class Program {
 public:
  template <class F> NDArray make(const F& call, std::initializer_list<NDArray> from = {}) {
    for (const NDArray& array : from) {
      if (!array.defined()) return {};
    }
    try {
      return call();
    } catch (const std::exception& error) {
      thrown_ = error.what();
      return {};
    }
  }
  void read(const std::string& name, const NDArray& array) {
    Result result{name, {}, thrown_};
    if (array.defined()) {
      try {
        result.values = array.to_vector<float>();
        result.error = "";
      } catch (const std::exception& error) {
        result.error = error.what();
      }
    }
    results_.push_back(std::move(result));
  }
  std::vector<Result> take() { return std::move(results_); }

 private:
  std::string thrown_ = "an array was not made, and nothing was thrown";
  std::vector<Result> results_;
};

// A copy to the GPU, a step with a gradient, an update in place. Returns the weights.
NDArray trained(Program& program, Device device) {
  const NDArray x = program.make([&] { return ((arange(kSize) - 100) / 8).copy_to(device); });
  const NDArray w = program.make([&] { return full({kSize}, 3, DType::f32, device); });
  const NDArray gradient = program.make(
      [&] {
        NDArray leaf = w.detach();
        leaf.set_requires_grad();
        const NDArray y = relu(x) * leaf - square(leaf);
        y.backward(ones({kSize}, DType::f32, device));
        return leaf.grad();
      },
      {x, w});
  return program.make(
      [&] {
        w -= gradient * 0.5;
        w.slice(0, {.step = 2}).assign((arange(kSize / 2) * 2).astype(DType::f16));
        return w;
      },
      {gradient});
}

std::vector<Result> run_program() {
  Program program;
  const NDArray c = program.make([] { return arange(kSize) * 2 + 1; });
  const NDArray w0 = trained(program, gpu(0)), w1 = trained(program, gpu(1));
  const NDArray peer = program.make([&] { return w0.copy_to(gpu(1)); }, {w0});
  const NDArray sum = program.make([&] { return peer + w1; }, {peer, w1});
  const NDArray out = program.make([&] { return w1.copy_to(cpu()) + c; }, {w1, c});
  const NDArray never =
      program.make([] { return (NDArray({kSize}, DType::f32, gpu(0)).copy() > 0).astype(DType::f32); });
  const NDArray huge =
      program.make([] { return zeros({kHuge}, DType::u8, gpu(1)).slice(0, {.end = 9}).astype(DType::f32); });
  program.read("cpu", c);
  program.read("gpu(0)", w0);
  program.read("gpu(1)", w1);
  program.read("both", sum);
  program.read("out", out);
  program.read("never written", never);
  program.read("huge", huge);
  return program.take();
}

// What an injected error has left.
struct Remains {
  std::size_t in_use = 0, pinned = 0, live = 0, objects = 0, threads = 0;
  bool operator==(const Remains&) const = default;
};

std::size_t threads() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& task : std::filesystem::directory_iterator("/proc/self/task")) ++count;
  return count;
}

Remains remains() {
  Remains now;
  for (const int device : {0, 1, 2}) {
    cudaSetDevice(device);
    cudaDeviceSynchronize();  // threads of streams that were destroyed end
    now.in_use += gpu_memory_stats(gpu(device)).in_use;
    now.live += emulated_gpu::live_bytes(device);
  }
  now.pinned = gpu_memory_stats(cpu_pinned()).in_use;
  now.objects = emulated_gpu::live_objects();
  now.threads = threads();
  return now;
}

// What is left, asked until as many threads are left as before: the system may list one that has just ended, now or before.
Remains remains_after(const Remains& before) {
  Remains now = remains();
  for (int i = 0; i < 10000 && now.threads > before.threads; ++i) {
    std::this_thread::yield();
    now.threads = threads();
  }
  if (now.threads < before.threads) now.threads = before.threads;
  return now;
}

std::string text_of(const Remains& r) {
  return std::to_string(r.in_use) + " bytes in use, " + std::to_string(r.pinned) + " page-locked, " +
         std::to_string(r.live) + " live, " + std::to_string(r.objects) + " objects, " +
         std::to_string(r.threads) + " threads";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Whether an error names the call that failed, and its GPU if it has one.
bool tells(const std::string& error, const std::string& call) {
  if (contains(error, "out of memory in op '") && contains(error, " asks for ")) return true;
  // Operators name themselves, not their launches and copies.
  if (call == "cudaLaunchKernel" || call == "cudaMemcpyAsync") return contains(error, " on gpu(");
  if (call == "cudaEventQuery") return contains(error, "work enqueued on gpu(");
  const bool has_gpu = call != "cudaHostAlloc" && call != "cudaFreeHost" && call != "cudaGetDeviceCount";
  return contains(error, call) && (!has_gpu || contains(error, " on gpu("));
}

struct Injection {
  std::uint64_t k;
  cudaError_t error;
  bool sticky;
  emulated_gpu::Calls among;
};

// Whether a GPU does what it is asked, or throws an error that names it.
std::string answer(Device device) {
  try {
    const NDArray x = (arange(10).copy_to(device) + 1).copy_to(cpu());
    return x.to_vector<float>()[9] == 10 ? "" : "wrong values";
  } catch (const std::exception& error) {
    return error.what();
  }
}

void check_results(const std::vector<Result>& results, const std::vector<Result>& expected,
                   const Injection& injected, const std::string& call) {
  const std::string lost = cudaGetErrorString(injected.error);
  REQUIRE(results.size() == expected.size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    const Result& result = results[i];
    CAPTURE(result.name);
    CAPTURE(result.error);
    if (result.error.empty()) {
      CHECK(expected[i].error == "");
      CHECK(result.values == expected[i].values);
      continue;
    }
    CHECK(result.name != "cpu");
    CHECK((tells(result.error, call) ||
           (injected.sticky && contains(result.error, "gpu(") && contains(result.error, lost))));
  }
}

// True if a call has failed.
bool run_with(const Injection& injected, const EngineOptions& options, const std::vector<Result>& expected) {
  std::string call;
  {
    Engine engine(options);
    const EngineScope scope(engine);
    emulated_gpu::fail_call(injected.k, injected.error, injected.sticky, injected.among);
    const std::vector<Result> results = run_program();
    call = emulated_gpu::failed_call();
    CAPTURE(call);
    check_results(results, expected, injected, call);
    if (!call.empty()) {
      for (const int device : {0, 1, 2}) {
        CAPTURE(device);
        const std::string text = answer(gpu(device));
        const bool failed = emulated_gpu::has_failed(device);
        CHECK((failed ? contains(text, gpu(device).to_string()) : text.empty()));
      }
    }
    try {
      engine.wait_all();
    } catch (const AggregateError&) {  // the results have the errors
    }
  }
  emulated_gpu::fail_call(0, cudaSuccess);
  for (int device = 0; device < gpu_count(); ++device) emulated_gpu::revive(device);
  return !call.empty();
}

std::uint64_t stride() {
  const char* const text = std::getenv("HEDDLE_FAILING_CALLS");
  return text ? std::strtoull(text, nullptr, 10) : 10;
}

// Makes each call fail, from the first to the one that the program does not make any more.
void fail_each(emulated_gpu::Calls among, std::uint64_t most) {
  constexpr struct {
    cudaError_t error;
    bool sticky;
  } kErrors[] = {
      {cudaErrorMemoryAllocation, false}, {cudaErrorInvalidValue, false}, {cudaErrorLaunchFailure, true}};
  constexpr Scheduler kSchedulers[] = {Scheduler::naive, Scheduler::threaded, Scheduler::fuzz};
  std::vector<Result> expected;
  const auto run_well = [&] {
    Engine engine({.workers = 2});
    const EngineScope scope(engine);
    return run_program();
  };
  {  // makes the stream that each GPU keeps, on which memory for all streams is taken
    Engine engine({.workers = 1});
    const EngineScope scope(engine);
    for (int device = 0; device < 2; ++device) NDArray({4}, DType::f32, gpu(device)).copy_to(cpu()).wait();
  }
  expected = run_well();
  for (const Result& result : expected) CHECK((result.error.empty() == (result.name != "huge")));
  for (std::size_t i = 0; i < std::size(kErrors); ++i) {
    for (std::uint64_t k = 1 + i * stride() / std::size(kErrors); k <= most; k += stride()) {
      CAPTURE(k);
      const std::string error = cudaGetErrorName(kErrors[i].error);
      CAPTURE(error);
      const Remains before = remains();
      const EngineOptions options{.scheduler = kSchedulers[(k + i) % 3], .workers = 2, .seed = k};
      const bool failed = run_with({k, kErrors[i].error, kErrors[i].sticky, among}, options, expected);
      const Remains after = remains_after(before);
      CHECK_MESSAGE(after == before, text_of(before), " before, now ", text_of(after));
      const std::string wrong = problems();
      CHECK_MESSAGE(wrong.empty(), wrong);
      check_results(run_well(), expected, {0, cudaSuccess, false, among}, "-");
      if (!failed) break;
    }
  }
}

TEST_CASE("each failing call of CUDA leaves right values or its name, and no memory") {
  fail_each(emulated_gpu::Calls::others, 2000);
}

TEST_CASE("each failing query of an event leaves right values or its name, and no memory") {
  fail_each(emulated_gpu::Calls::event_queries, 60);
}

}  // namespace
