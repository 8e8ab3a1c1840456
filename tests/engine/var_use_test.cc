#include <atomic>
#include <cstdint>
#include <optional>
#include <semaphore>
#include <thread>
#include <utility>

#include <doctest/doctest.h>

#include <heddle/engine.h>
#include <heddle/graph.h>
#include <heddle/parallel.h>
#include <heddle/var_use.h>

#include "schedulers.h"

using namespace heddle;
using namespace heddle::test;

TEST_CASE("an op knows what it has declared of a var, and so does nothing outside of it") {
  on_every_scheduler([](Engine& engine) {
    Engine other({.scheduler = Scheduler::naive});
    const Var read = engine.new_var(), mutated = engine.new_var(), both = engine.new_var();
    const Var unknown = engine.new_var(), others = other.new_var();
    engine.push(
        [&] {
          CHECK(use_by_this_op(read) == VarUse::read);
          CHECK(use_by_this_op(mutated) == VarUse::mutate);
          CHECK(use_by_this_op(both) == VarUse::mutate);
          CHECK(use_by_this_op(unknown) == VarUse::none);
          CHECK(use_by_this_op(others) == VarUse::none);
          other.push([&] { CHECK(use_by_this_op(read) == VarUse::read); }, {.mutate = {others}});
        },
        {.read = {read, both}, .mutate = {mutated, both}});
    engine.wait(mutated);
    CHECK(use_by_this_op(read) == VarUse::none);
  });
}

TEST_CASE("an op of a graph knows its own declarations, not those of the whole graph") {
  on_every_scheduler([](Engine& engine) {
    const Var a = engine.new_var(), b = engine.new_var();
    Graph graph = engine.capture([&] {
      engine.push([&] { CHECK(use_by_this_op(b) == VarUse::none); }, {.mutate = {a}});
      engine.push(
          [&] {
            CHECK(use_by_this_op(a) == VarUse::read);
            CHECK(use_by_this_op(b) == VarUse::mutate);
            std::atomic<int> wrong = 0;
            parallel_for(16, 1,
                         [&](std::int64_t, std::int64_t) { wrong += use_by_this_op(a) != VarUse::read; });
            CHECK(wrong == 0);
          },
          {.read = {a}, .mutate = {b}});
    });
    for (int i = 0; i < 3; ++i) graph.launch();
    engine.wait(b);
    CHECK(use_by_this_op(a) == VarUse::none);
  });
}

TEST_CASE("a var is not idle while an op on it is queued or runs, nor with an error") {
  on_every_scheduler([](Engine& engine) {
    const Var var = engine.new_var(), done = engine.new_var();
    bool idle = true;
    engine.push([&] { idle = is_idle(var); }, {.read = {var}, .mutate = {done}});
    engine.wait(done);
    CHECK_FALSE(idle);
    engine.push([] { throw Error("fails"); }, {.mutate = {var}});
    CHECK_THROWS_AS(engine.wait(var), Error);
    CHECK_FALSE(is_idle(var));
  });
}

TEST_CASE("with worker threads a var is idle once all that was pushed on it has ended") {
  Engine engine({.scheduler = Scheduler::threaded, .workers = 2});
  const Var var = engine.new_var();
  CHECK(is_idle(var));
  for (int round = 0; round < 1000; ++round) {
    int value = 0;
    engine.push([&value] { value = 1; }, {.mutate = {var}});
    if (!is_idle(var)) engine.wait(var);
    CHECK(value == 1);
  }
  std::optional<Completion> held;
  std::binary_semaphore started{0};
  engine.push_async(
      [&](RunContext&, Completion completion) {
        held.emplace(std::move(completion));
        started.release();
      },
      {.read = {var}});
  started.acquire();
  CHECK_FALSE(is_idle(var));
  held->done();
  engine.wait_all();
  CHECK(is_idle(var));
}
