// Runs of ops that launches of a graph enqueue by one call of CUDA: how many calls are made, that results are those of calling the
// operators, and what happens if CUDA refuses something.
//
// HEDDLE_FAILING_CALLS=N makes each Nth call fail, in place of each tenth.
#include <cstdlib>
#include <cuda_runtime_api.h>
#include <emulated_gpu.h>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/check.h>
#include <heddle/elementwise.h>
#include <heddle/engine.h>
#include <heddle/gpu_memory.h>
#include <heddle/graph.h>
#include <heddle/ndarray.h>
#include <heddle/ops.h>

#include "problems.h"

using namespace heddle;

namespace {

const std::vector<EngineOptions> kEngines{{.workers = 1},
                                          {.workers = 3},
                                          {.scheduler = Scheduler::naive},
                                          {.scheduler = Scheduler::fuzz, .seed = 1},
                                          {.scheduler = Scheduler::fuzz, .seed = 2}};

std::vector<float> values_of(const NDArray& array) { return array.copy_to(cpu()).to_vector<float>(); }

NDArray chain(const NDArray& x, int ops) {
  NDArray y = x;
  for (int i = 0; i < ops; ++i) y = i % 3 == 2 ? relu(y) : i % 3 == 1 ? y * 0.75 : y + x;
  return y;
}

// The calls of CUDA, but queries of events, that a launch makes once its graph's work is recorded.
std::uint64_t calls_of_launch(int ops) {
  Engine engine({.workers = 1});
  const EngineScope scope(engine);
  const NDArray x = (arange(100) - 50).copy_to(gpu(0)), y = zeros({100}, DType::f32, gpu(0));
  const Graph graph = engine.capture([&] { y.assign(chain(x, ops)); });
  for (int i = 0; i < 3; ++i) graph.launch();
  engine.wait_all();
  const std::uint64_t before = emulated_gpu::calls(emulated_gpu::Calls::others), replayed = replays();
  for (int i = 0; i < 4; ++i) graph.launch();
  engine.wait_all();
  const std::uint64_t after = emulated_gpu::calls(emulated_gpu::Calls::others);
  CHECK((check::enabled() || replays() == replayed + 4));
  CHECK(values_of(y) == values_of(chain(x, ops)));
  return (after - before) / 4;
}

TEST_CASE("launches of a chain of any length make the same few calls of CUDA") {
  if (check::enabled()) return;  // the access checker looks at functions, which are called then
  const std::uint64_t calls = calls_of_launch(50);
  // The graph is launched and an event recorded. The others set the thread's device and mode of capture, and restore them.
  CHECK(calls <= 7);
  CHECK(calls_of_launch(5) == calls);
  CHECK(calls_of_launch(100) == calls);
  CHECK(problems() == "");
}

TEST_CASE("products, reductions and scans, which take scratch memory, are recorded with their memory") {
  for (const EngineOptions& options : kEngines) {
    Engine engine(options);
    const EngineScope scope(engine);
    const NDArray a = ((arange(64 * 70) - 9) / 100).view({64, 70}).copy_to(gpu(0)),
                  b = ((arange(70 * 66) - 5) / 70).view({70, 66}).copy_to(gpu(0));
    const NDArray y = zeros({66}, DType::f32, gpu(0)), z = zeros({64, 66}, DType::f32, gpu(0));
    const auto body = [&] {
      const NDArray product = matmul(a, b);
      z.assign(softmax(cumsum(product, 1), 1) + matmul(a * 0.5, b));
      y.assign(sum(product, {0}) + sum(z, {0}));
      a *= 0.97;
    };
    const NDArray start = a.copy();
    for (int i = 0; i < 5; ++i) body();
    const std::vector<float> expected_y = values_of(y), expected_z = values_of(z);
    engine.wait_all();
    const std::size_t in_use = gpu_memory_stats(gpu(0)).in_use;
    a.assign(start);
    const std::uint64_t before = replays();
    {
      const Graph graph = engine.capture(body);
      for (int i = 0; i < 5; ++i) graph.launch();
      engine.wait_all();
      CHECK(gpu_memory_stats(gpu(0)).in_use > in_use);
    }
    CHECK((check::enabled() || replays() >= before + 3));
    CHECK(values_of(y) == expected_y);
    CHECK(values_of(z) == expected_z);
    engine.wait_all();
    CHECK(gpu_memory_stats(gpu(0)).in_use == in_use);
  }
  CHECK(problems() == "");
}

// A graph over the CPU and two GPUs, whose results are read after launches. Arrays that are not defined could not be made.
struct Mixed {
  NDArray x, y, there, out;
  static Mixed made() {
    Mixed m;
    m.x = (arange(60) - 30).copy_to(gpu(0));
    m.y = ones({60}, DType::f32, gpu(0));
    m.there = ones({60}, DType::f32, gpu(1));
    m.out = zeros({60}, DType::f32);
    for (const NDArray& one : {m.x, m.y, m.there, m.out}) one.wait();
    return m;
  }
  void step() const {
    const NDArray p = relu(x * 0.5 + y) - 1;
    const NDArray q = (p.copy_to(gpu(1)) + there) * 0.25 - 3;
    there.assign(q + 1);
    y.assign(sum(p) / 60 + x);
    out.assign(out + q.copy_to(cpu()) * 2);
    x += 0.125;
  }
};

struct Values {
  std::vector<std::vector<float>> values;
  std::vector<std::string> errors;
};

Values values_of(const Mixed& m) {
  Values all;
  for (const NDArray& one : {m.x, m.y, m.there, m.out}) {
    try {
      all.values.push_back(values_of(one));
      all.errors.emplace_back();
    } catch (const std::exception& error) {
      all.values.emplace_back();
      all.errors.emplace_back(error.what());
    }
  }
  return all;
}

Values called(int steps) {
  Engine engine({.scheduler = Scheduler::naive});
  const EngineScope scope(engine);
  const Mixed m = Mixed::made();
  for (int i = 0; i < steps; ++i) m.step();
  return values_of(m);
}

TEST_CASE("a graph over the CPU and two GPUs gives the bits of calls, also if it ends while it runs") {
  constexpr int kLaunches = 6;
  const Values expected = called(kLaunches);
  for (const EngineOptions& options : kEngines) {
    Engine engine(options);
    const EngineScope scope(engine);
    const Mixed m = Mixed::made();
    const std::uint64_t before = replays();
    Graph graph = engine.capture([&] { m.step(); });
    for (int i = 0; i < kLaunches; ++i) graph.launch();
    graph = Graph();
    CHECK(values_of(m).values == expected.values);
    CHECK((check::enabled() || replays() > before));
  }
  CHECK(problems() == "");
}

TEST_CASE("two threads launch a graph, and a third one another on the same stream") {
  Engine engine({.workers = 3});
  const EngineScope scope(engine);
  const NDArray x = zeros({50}, DType::f32, gpu(0)), y = zeros({50}, DType::f32, gpu(0));
  const auto count = [&](const NDArray& array) {
    return engine.capture([&] {
      for (int i = 0; i < 4; ++i) array += 1;
    });
  };
  const Graph of_x = count(x), of_y = count(y);
  std::vector<std::thread> threads;
  for (const Graph* graph : {&of_x, &of_x, &of_y})
    threads.emplace_back([graph] {
      for (int i = 0; i < 10; ++i) graph->launch();
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(values_of(x) == std::vector<float>(50, 80));
  CHECK(values_of(y) == std::vector<float>(50, 40));
  CHECK(problems() == "");
}

TEST_CASE("work is recorded anew when memory has moved") {
  Engine engine;
  const EngineScope scope(engine);
  const NDArray x = ones({40}, DType::f32, gpu(0)), y = zeros({40}, DType::f32, gpu(0));
  const Graph graph = engine.capture([&] { y.assign((x + 1) * 2); });
  for (int i = 0; i < 6; ++i) {
    NDArray other = full({40}, i, DType::f32, gpu(0));
    engine.wait_all();
    x.storage()->exchange_memory(*other.storage());
    graph.launch();
    graph.launch();
    CHECK(values_of(y) == std::vector<float>(40, 2.0f * static_cast<float>(i) + 2));
  }
  CHECK(problems() == "");
}

struct Remains {
  std::size_t in_use = 0, live = 0, objects = 0;
  bool operator==(const Remains&) const = default;
};

Remains remains() {
  Remains now;
  for (const int device : {0, 1}) {
    cudaSetDevice(device);
    cudaDeviceSynchronize();
    now.in_use += gpu_memory_stats(gpu(device)).in_use;
    now.live += emulated_gpu::live_bytes(device);
  }
  now.objects = emulated_gpu::live_objects();
  return now;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Whether an error names the call that failed, or else the GPU and the error.
bool tells(const std::string& error, const std::string& call, cudaError_t injected) {
  return contains(error, call) || contains(error, "out of memory") ||
         (contains(error, "gpu(") && contains(error, cudaGetErrorString(injected)));
}

// Launches a graph five times, and makes a call fail after the first launch. False: there were fewer calls.
bool launch_with_failure(std::uint64_t k, cudaError_t error, bool sticky, const EngineOptions& options,
                         const Values& expected) {
  std::string call;
  {
    Engine engine(options);
    const EngineScope scope(engine);
    const Mixed m = Mixed::made();
    Graph graph = engine.capture([&] { m.step(); });
    graph.launch();
    engine.wait_all();
    emulated_gpu::fail_call(k, error, sticky, emulated_gpu::Calls::others);
    for (int i = 0; i < 4; ++i) graph.launch();
    try {
      engine.wait_all();
    } catch (const AggregateError&) {
    }
    call = emulated_gpu::failed_call();
    emulated_gpu::fail_call(0, cudaSuccess);
    const Values got = values_of(m);
    CAPTURE(call);
    for (std::size_t i = 0; i < got.errors.size(); ++i) {
      CAPTURE(i);
      CAPTURE(got.errors[i]);
      if (got.errors[i].empty()) {
        CHECK(got.values[i] == expected.values[i]);
      } else {
        CHECK(tells(got.errors[i], call, error));
      }
    }
    // Whatever refuses to record, or to launch what was recorded, is no error.
    const bool records = contains(call, "Capture") || contains(call, "Graph");
    for (const std::string& text : got.errors) CHECK_MESSAGE((!records || sticky || text.empty()), text);
    graph = Graph();
    try {
      engine.wait_all();
    } catch (const AggregateError&) {
    }
  }
  for (const int device : {0, 1}) emulated_gpu::revive(device);
  return !call.empty();
}

void fail_each(cudaError_t error, bool sticky, std::uint64_t first) {
  const char* const text = std::getenv("HEDDLE_FAILING_CALLS");
  const std::uint64_t stride = text ? std::strtoull(text, nullptr, 10) : 10;
  constexpr Scheduler kSchedulers[] = {Scheduler::naive, Scheduler::threaded, Scheduler::fuzz};
  const Values expected = called(5);
  launch_with_failure(0, cudaSuccess, false, {.workers = 2}, expected);
  for (std::uint64_t k = 1 + first % stride; k <= 2000; k += stride) {
    CAPTURE(k);
    const Remains before = remains();
    const EngineOptions options{.scheduler = kSchedulers[k % 3], .workers = 2, .seed = k};
    const bool failed = launch_with_failure(k, error, sticky, options, expected);
    const std::string wrong = problems();
    // Nothing orders the frees of a lost GPU behind its work, which the emulated one may still run.
    CHECK_MESSAGE((wrong.empty() || (sticky && contains(wrong, "freed memory was written"))), wrong);
    for (const int device : {0, 1}) emulated_gpu::revive(device);
    CHECK(remains() == before);
    if (!failed) return;
  }
  CHECK(false);
}

TEST_CASE("a call of CUDA that fails while work is recorded or enqueued leaves right values or its name") {
  fail_each(cudaErrorInvalidValue, false, 0);
  fail_each(cudaErrorMemoryAllocation, false, 5);
}

TEST_CASE("a GPU that is lost while work is recorded or enqueued fails its ops alone") {
  fail_each(cudaErrorLaunchFailure, true, 3);
}

}  // namespace
