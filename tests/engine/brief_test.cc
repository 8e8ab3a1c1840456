// Brief ops: a thread that pushes one may run it inside the push.
#include <atomic>
#include <future>
#include <stdexcept>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/engine.h>

#include "schedulers.h"

using namespace heddle;
using namespace heddle::test;

TEST_CASE("brief: runs inside the push if nothing comes before it") {
  Engine engine({.scheduler = Scheduler::threaded, .workers = 1});
  const Var a = engine.new_var();
  std::thread::id where;
  engine.push([&] { where = std::this_thread::get_id(); }, {.mutate = {a}, .brief = true});
  CHECK(where == std::this_thread::get_id());
  engine.wait(a);
}

TEST_CASE("brief: behind an op that runs it waits its turn, and the push returns") {
  on_every_scheduler([](Engine& engine) {
    const Var a = engine.new_var(), b = engine.new_var();
    std::vector<int> order;
    engine.push([&] { order.push_back(0); }, {.mutate = {a}});
    for (int i = 1; i < 100; ++i) {
      const bool brief = i % 3 != 0;
      if (i % 2 == 0) {
        engine.push([&order, i] { order.push_back(i); }, {.read = {b}, .mutate = {a}, .brief = brief});
      } else {
        engine.push([&order, i] { order.push_back(i); }, {.mutate = {a, b}, .brief = brief});
      }
    }
    engine.wait_all();
    REQUIRE(order.size() == 100);
    for (std::size_t i = 0; i < order.size(); ++i) CHECK(order[i] == static_cast<int>(i));
  });
}

TEST_CASE("brief: not while all workers run other ops") {
  Engine engine({.scheduler = Scheduler::threaded, .workers = 1});
  const Var busy = engine.new_var(), free = engine.new_var();
  std::promise<void> started, release;
  engine.push(
      [&] {
        started.set_value();
        release.get_future().wait();
      },
      {.mutate = {busy}});
  started.get_future().wait();
  std::atomic<bool> ran{false};
  engine.push([&] { ran = true; }, {.mutate = {free}, .brief = true});
  CHECK_FALSE(ran);
  release.set_value();
  engine.wait(free);
  CHECK(ran);
}

TEST_CASE("brief: an error poisons, is skipped for, and is cleared as any other") {
  on_every_scheduler([](Engine& engine) {
    const Var a = engine.new_var(), b = engine.new_var();
    int ran = 0;
    engine.push([] { throw std::runtime_error("broken"); }, {.mutate = {a}, .brief = true});
    engine.push([&] { ++ran; }, {.read = {a}, .mutate = {b}, .brief = true});
    CHECK_THROWS_WITH_AS(engine.wait(b), "broken", std::runtime_error);
    CHECK(ran == 0);
    engine.push([&] { ++ran; }, {.mutate = {a}, .brief = true});
    engine.push([&] { ++ran; }, {.read = {a}, .mutate = {b}, .brief = true});
    engine.wait(b);
    CHECK(ran == 2);
  });
}

TEST_CASE("brief: pushed by ops, by many threads, beside wait_all") {
  on_every_scheduler([](Engine& engine) {
    constexpr int kThreads = 3, kPushes = 500;
    const Var shared = engine.new_var();
    long total = 0;
    std::vector<std::thread> threads;
    std::atomic<int> wrong{0};
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] {
        const Var own = engine.new_var();
        long mine = 0;
        for (int i = 0; i < kPushes; ++i) {
          engine.push([&mine] { ++mine; }, {.mutate = {own}, .brief = true});
          engine.push([&total] { ++total; }, {.mutate = {shared}, .brief = i % 2 == 0});
          if (i % 50 == 0) {
            engine.push(
                [&engine, &total, &shared] {
                  engine.push([&total] { ++total; }, {.mutate = {shared}, .brief = true});
                },
                {.mutate = {own}});
          }
          if (i % 100 == thread) engine.wait_all();
          if (i % 7 == 0) {
            engine.wait(own);
            wrong += mine != i + 1;
          }
        }
        engine.wait(own);
      });
    }
    for (std::thread& thread : threads) thread.join();
    engine.wait_all();
    CHECK(wrong == 0);
    CHECK(total == kThreads * (kPushes + kPushes / 50));
  });
}

TEST_CASE("brief: an engine with room for one op at a time") {
  Engine engine({.scheduler = Scheduler::threaded, .workers = 2, .max_ops = 1});
  const Var a = engine.new_var();
  int ran = 0;
  for (int i = 0; i < 1000; ++i) engine.push([&] { ++ran; }, {.mutate = {a}, .brief = i % 2 == 0});
  engine.wait(a);
  CHECK(ran == 1000);
}
