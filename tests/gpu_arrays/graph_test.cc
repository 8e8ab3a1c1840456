// Graphs of ops on a GPU, on the CPU and of copies between them give the bits of calling the operators in each launch.
#include <cstring>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/array_op.h>
#include <heddle/autograd.h>
#include <heddle/elementwise.h>
#include <heddle/elementwise_math.h>
#include <heddle/engine.h>
#include <heddle/gpu_memory.h>
#include <heddle/graph.h>
#include <heddle/ndarray.h>

#include "compare.h"
#include "problems.h"

using namespace heddle;
using namespace heddle::test;

namespace {

const std::vector<EngineOptions> kEngines{{.workers = 1},
                                          {.workers = 3},
                                          {.scheduler = Scheduler::naive},
                                          {.scheduler = Scheduler::fuzz, .seed = 1},
                                          {.scheduler = Scheduler::fuzz, .seed = 2}};

// Arrays of one shape, the first half on the CPU and the other half on the GPU, and a random program over them.
struct Program {
  static constexpr std::size_t kArrays = 8;
  struct Step {
    std::size_t kind, to, a, b;
    float number;
  };
  explicit Program(std::uint64_t seed) : random(seed) {
    length = std::vector<std::int64_t>{1, 33, 1024}[random() % 3];
    for (auto steps = 3 + random() % 12; steps > 0; --steps) {
      const auto any = [&] { return random() % kArrays; };
      all.push_back({random() % 5, any(), any(), any(), static_cast<float>(random() % 100) / 200 - 0.25f});
    }
  }
  Random random;
  std::int64_t length = 0;
  std::vector<Step> all{};
};

void run_step(const std::vector<NDArray>& arrays, const Program::Step& step, Slot<float>* rate) {
  const NDArray &to = arrays[step.to], &a = arrays[step.a], &b = arrays[step.b];
  const bool one_device = a.device() == b.device();
  switch (step.kind) {
    case 0:
      return to.assign(a);
    case 1:
      return to.assign(one_device ? maximum(multiply(a, step.number), b) : multiply(a, step.number));
    case 2:
      return to.slice(0, {.step = -1}).assign(one_device ? subtract(a, b) : a);
    case 3:
      return to.fill(step.number);
    default:
      break;
  }
  // A number that differs from launch to launch comes by way of the CPU.
  const NDArray number({1}, DType::f32);
  if (rate) {
    array_push("rate", {}, {number},
               [number = number.detach(), rate = *rate] { *number.data<float>() = *rate; });
  } else {
    number.fill(step.number);
  }
  to.assign(multiply(a, number.copy_to(a.device())));
}

std::vector<std::uint64_t> versions(const std::vector<NDArray>& arrays) {
  std::vector<std::uint64_t> all;
  for (const NDArray& one : arrays) all.push_back(one.storage()->version());
  return all;
}

// The values of all arrays after launches, or calls, among other ops; and whether each launch has changed the arrays' versions.
std::vector<std::vector<float>> run(const Program& program, const EngineOptions& options, bool captured) {
  Engine engine(options);
  const EngineScope scope(engine);
  Random random(7);
  std::vector<NDArray> arrays;
  for (std::size_t i = 0; i < Program::kArrays; ++i) {
    std::vector<float> values;
    for (std::int64_t at = 0; at < program.length; ++at)
      values.push_back(static_cast<float>(random() % 1000) / 100 - 5);
    arrays.push_back(array(values, {program.length}).copy_to(i < Program::kArrays / 2 ? cpu() : gpu(0)));
  }
  std::vector<std::vector<float>> results;
  Slot<float> rate;
  Graph graph;
  if (captured) {
    graph = engine.capture([&] {
      rate = engine.slot<float>();
      for (const Program::Step& step : program.all) run_step(arrays, step, &rate);
    });
  }
  for (int launch = 0; launch < 6; ++launch) {
    const float by = static_cast<float>(launch) / 4 - 0.5f;
    const std::vector<std::uint64_t> before = versions(arrays);
    if (captured) {
      graph.launch(rate.bind(by));
    } else {
      for (Program::Step step : program.all) {
        if (step.kind == 4) step.number = by;
        run_step(arrays, step, nullptr);
      }
    }
    std::vector<float>& changed = results.emplace_back();
    for (std::size_t i = 0; i < arrays.size(); ++i)
      changed.push_back(arrays[i].storage()->version() > before[i] ? 1 : 0);
    if (launch % 2 == 1) arrays[4].assign(add(arrays[5], arrays[6]));
    if (launch % 3 == 1) arrays[0].assign(arrays[7]);
  }
  graph = Graph();
  for (const NDArray& one : arrays) results.push_back(one.copy_to(cpu()).to_vector<float>());
  return results;
}

bool same(const std::vector<std::vector<float>>& a, const std::vector<std::vector<float>>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::memcmp(a[i].data(), b[i].data(), a[i].size() * sizeof(float)) != 0) return false;
  }
  return true;
}

TEST_CASE("random programs on a GPU and the CPU give the same bits captured as called") {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    CAPTURE(seed);
    const Program program(seed);
    const auto expected = run(program, {.scheduler = Scheduler::naive}, false);
    const EngineOptions& options = kEngines[seed % kEngines.size()];
    CHECK(same(run(program, options, false), expected));
    CHECK(same(run(program, options, true), expected));
  }
  CHECK(problems() == "");
}

// A step of training: the loss of a network of one layer, element by element, its gradient and the update.
struct Training {
  explicit Training(std::int64_t length)
      : w(full({length}, 0.5, DType::f32, gpu(0))),
        bias(full({length}, 0.1, DType::f32, gpu(0))),
        x({length}, DType::f32),
        y({length}, DType::f32),
        loss({length}, DType::f32),
        rate({1}, DType::f32) {
    set_requires_grad(w), set_requires_grad(bias);
  }
  void step() {
    clear_grad(w), clear_grad(bias);
    const NDArray there = x.copy_to(gpu(0));
    const NDArray error = subtract(tanh(add(multiply(w, there), bias)), y.copy_to(gpu(0)));
    const NDArray squared = multiply(error, error);
    backward(squared, ones({w.shape()[0]}, DType::f32, gpu(0)));
    const NDArray by = rate.copy_to(gpu(0));
    update(w, by), update(bias, by);
    loss.assign(squared.detach());
  }
  static void update(const NDArray& parameter, const NDArray& by) {
    const NDArray weight = parameter.detach();
    weight.assign(subtract(weight, multiply(grad(parameter), by)));
  }
  NDArray w, bias, x, y, loss, rate;
};

std::vector<std::vector<float>> train(const EngineOptions& options, bool captured) {
  Engine engine(options);
  const EngineScope scope(engine);
  Training training(700);
  Graph graph;
  std::vector<std::vector<float>> results;
  std::uint64_t waits = 0;
  for (int i = 0; i < 8; ++i) {
    training.x.assign(full({700}, 0.1 * i, DType::f32));
    training.y.fill(0.3 - 0.05 * i);
    training.rate.fill(0.4 / (1 + i));
    if (!captured || i == 0) {
      training.step();
    } else {
      if (i == 1) graph = engine.capture([&] { training.step(); });
      if (i == 2) waits = host_waits();
      graph.launch();
    }
    results.push_back(training.loss.copy().to_vector<float>());
  }
  if (captured) CHECK(host_waits() == waits);
  results.push_back(training.w.detach().copy_to(cpu()).to_vector<float>());
  results.push_back(training.bias.detach().copy_to(cpu()).to_vector<float>());
  return results;
}

TEST_CASE("a step of training on a GPU is the same captured and not, and waits for nothing") {
  const auto expected = train({.workers = 1}, false);
  CHECK(expected[7] != expected[0]);
  for (const EngineOptions& options : kEngines) {
    CAPTURE(static_cast<int>(options.scheduler));
    CHECK(same(train(options, false), expected));
    CHECK(same(train(options, true), expected));
  }
  CHECK(problems() == "");
}

TEST_CASE("memory of a graph's arrays on a GPU is taken in the first launch, and freed with the graph") {
  Engine engine;
  const EngineScope scope(engine);
  const NDArray x = ones({5000}, DType::f32, gpu(0)), y = zeros({5000}, DType::f32, gpu(0));
  engine.wait_all();
  const std::size_t before = gpu_memory_stats(gpu(0)).in_use;
  Graph graph = engine.capture([&] { y.assign(add(multiply(x, 2), y)); });
  CHECK(gpu_memory_stats(gpu(0)).in_use == before);
  graph.launch();
  engine.wait_all();
  const std::size_t taken = gpu_memory_stats(gpu(0)).in_use;
  CHECK(taken > before);
  for (int i = 0; i < 5; ++i) graph.launch();
  graph = Graph();  // launches are under way
  engine.wait_all();
  CHECK(gpu_memory_stats(gpu(0)).in_use == before);
  CHECK(y.copy_to(cpu()).to_vector<float>()[4999] == 12);
  CHECK(problems() == "");
}

TEST_CASE(
    "an op of a graph that finds no memory fails in each launch, and what reads it inherits the error") {
  Engine engine;
  const EngineScope scope(engine);
  const GpuMemoryStats stats = gpu_memory_stats(gpu(0));
  const auto total = static_cast<std::int64_t>(stats.free + stats.cached);
  const NDArray x = ones({10}, DType::f32, gpu(0)), huge({2 * total}, DType::u8, gpu(0));
  const NDArray part = zeros({10}, DType::u8, gpu(0)), good = zeros({10}, DType::f32, gpu(0));
  const Graph graph = engine.capture([&] {
    huge.fill(1);
    part.assign(huge.slice(0, {.begin = 0, .end = 10}));
    good.assign(add(good, x));
  });
  for (int i = 0; i < 3; ++i) {
    graph.launch();
    CHECK_THROWS_AS(huge.wait(), OutOfMemory);
    CHECK_THROWS_AS(part.wait(), OutOfMemory);
  }
  CHECK(good.copy_to(cpu()).to_vector<float>()[9] == 3);
  CHECK(problems() == "");
}

}  // namespace
