// Memory that the ops of a graph fill: a launch gives it back when its last op that uses it is done.
#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/engine.h>
#include <heddle/graph.h>
#include <heddle/launch_memory.h>

#include "schedulers.h"

using namespace heddle;
using namespace heddle::test;

namespace {

const std::vector<EngineOptions> kEngines{{.workers = 1},
                                          {.workers = 2},
                                          {.workers = 4},
                                          {.scheduler = Scheduler::naive},
                                          {.scheduler = Scheduler::fuzz, .seed = 1},
                                          {.scheduler = Scheduler::fuzz, .seed = 2}};

// Memory with a value, which is taken away at the last use: an op that came later would find none.
struct Cell : LaunchMemory {
  std::unique_ptr<int> memory;
  int ends = 0;
  void fill(int value) { memory = std::make_unique<int>(value); }
  void end_use() noexcept override { memory.reset(), ++ends; }
};

std::shared_ptr<Cell> cell_of(const Var& var) {
  auto cell = std::make_shared<Cell>();
  launch_use(var).memory = cell;
  return cell;
}

}  // namespace

TEST_CASE("launch memory: ends after the last reader, in each launch, with every scheduler") {
  for (const EngineOptions& options : kEngines) {
    CAPTURE(options.workers);
    Engine engine(options);
    const Var a = engine.new_var(), b = engine.new_var(), out = engine.new_var();
    std::shared_ptr<Cell> first, second;
    std::atomic<long> sum{0};
    const Graph graph = engine.capture([&] {
      first = cell_of(a), second = cell_of(b);
      engine.push([first] { first->fill(2); }, {.mutate = {a}});
      for (int i = 0; i < 8; ++i) engine.push([&sum, first] { sum += *first->memory; }, {.read = {a}});
      engine.push([first] { *first->memory += 1; }, {.read = {a}, .mutate = {a}});
      engine.push([first, second] { second->fill(*first->memory); }, {.read = {a}, .mutate = {b}});
      for (int i = 0; i < 8; ++i)
        engine.push([&sum, first, second] { sum += *first->memory * *second->memory; }, {.read = {a, b}});
    });
    for (int launch = 1; launch <= 20; ++launch) {
      graph.launch();
      engine.wait_all();
      CHECK(first->ends == launch);
      CHECK(second->ends == launch);
      CHECK_FALSE(first->memory);
    }
    CHECK(sum == 20 * (8 * 2 + 8 * 9));
  }
}

TEST_CASE("launch memory: lasts if the first op of the graph reads the var, or no op uses it") {
  Engine engine({.workers = 2});
  const Var a = engine.new_var(), unused = engine.new_var();
  std::shared_ptr<Cell> cell, other;
  const Graph graph = engine.capture([&] {
    cell = cell_of(a), other = cell_of(unused);
    engine.push([] {}, {.read = {a}});
    engine.push([cell] { cell->fill(1); }, {.mutate = {a}});
  });
  for (int i = 0; i < 3; ++i) graph.launch();
  engine.wait_all();
  CHECK(cell->ends == 0);
  CHECK(*cell->memory == 1);
  CHECK(other->ends == 0);
}

TEST_CASE("launch memory: ends too when ops fail, are skipped, or are asynchronous") {
  for (const EngineOptions& options : kEngines) {
    Engine engine(options);
    const Var a = engine.new_var(), b = engine.new_var(), c = engine.new_var();
    std::shared_ptr<Cell> first, second, third;
    std::atomic<bool> fails{true};
    const Graph graph = engine.capture([&] {
      first = cell_of(a), second = cell_of(b), third = cell_of(c);
      engine.push_async(
          [first](RunContext&, Completion done) {
            first->fill(1);
            done.done();
          },
          {.mutate = {a}});
      engine.push(
          [&fails, first, second] {
            second->fill(*first->memory);
            if (fails) throw std::runtime_error("fails");
          },
          {.read = {a}, .mutate = {b}});
      engine.push_async(
          [second, third](RunContext&, Completion done) {
            third->fill(*second->memory);
            done.done();
          },
          {.read = {b}, .mutate = {c}});
    });
    graph.launch();
    CHECK_THROWS_AS(engine.wait(c), std::runtime_error);
    CHECK_THROWS(engine.wait_all());
    CHECK(first->ends == 1);
    CHECK(second->ends == 1);
    CHECK(third->ends == 1);
    fails = false;
    graph.launch();
    engine.wait_all();
    CHECK(third->ends == 2);
  }
}

TEST_CASE("launch memory: only in a capture") {
  Engine engine({.workers = 1});
  const Var var = engine.new_var();
  CHECK_THROWS_WITH_AS((void)launch_use(var),
                       doctest::Contains("call it inside the function that Engine::capture is given"), Error);
}
