// Programs that end only if every worker, or every thread, is available, or ops run in a certain order.
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/engine.h>
#include <heddle/parallel.h>

#include "schedulers.h"

using namespace heddle;
using namespace heddle::test;

TEST_CASE("loops of several ops whose chunks push and wait") {
  Engine engine({.workers = 2});
  std::atomic<int> runs = 0;
  for (int round = 0; round < 100; ++round) {
    for (int op = 0; op < 2; ++op) {
      engine.push([&] {
        parallel_for(4, 1, [&](std::int64_t, std::int64_t) {
          Var var = engine.new_var();
          engine.push([&] { ++runs; }, {.mutate = {var}});
          engine.wait(var);
        });
      });
    }
  }
  engine.wait_all();
  CHECK(runs == 800);
}

TEST_CASE("a chunk waits for an op that the same worker made ready") {
  for (int round = 0; round < 50; ++round) {
    Engine engine({.workers = 2});
    Var first = engine.new_var(), second = engine.new_var();
    std::atomic<bool> looping = false;
    int value = 0;
    engine.push(
        [&] {
          while (!looping) std::this_thread::yield();
        },
        {.mutate = {first}});
    engine.push([&] { value = 1; }, {.read = {first}, .mutate = {second}});
    engine.push([&] {
      parallel_for(4, 1, [&](std::int64_t, std::int64_t) {
        looping = true;
        engine.wait(second);
      });
    });
    engine.wait_all();
    CHECK(value == 1);
  }
}

TEST_CASE("forks and joins a dozen levels deep") {
  Engine engine({.workers = 2});
  std::function<int(int)> count = [&](int depth) -> int {
    if (depth == 0) return 1;
    int left = 0, right = 0;
    Var a = engine.new_var(), b = engine.new_var();
    engine.push([&] { left = count(depth - 1); }, {.mutate = {a}});
    engine.push([&] { right = count(depth - 1); }, {.mutate = {b}});
    engine.wait(a);
    engine.wait(b);
    return left + right;
  };
  int leaves = 0;
  Var var = engine.new_var();
  engine.push([&] { leaves = count(12); }, {.mutate = {var}});
  engine.wait(var);
  CHECK(leaves == 4096);
}

TEST_CASE("an endless chain does not keep other ops waiting") {
  Engine engine({.workers = 1});
  Var chain = engine.new_var(), other = engine.new_var();
  std::atomic<bool> stop = false;
  struct Again {
    Engine& engine;
    Var chain;
    std::atomic<bool>& stop;
    void operator()() const {
      if (!stop) engine.push(Again{engine, chain, stop}, {.mutate = {chain}});
    }
  };
  engine.push(Again{engine, chain, stop}, {.mutate = {chain}});
  engine.push([&] { stop = true; }, {.mutate = {other}});
  engine.wait_all();
  CHECK(stop);
}

TEST_CASE("wait_all ends though another thread goes on pushing") {
  for (auto scheduler : {Scheduler::threaded, Scheduler::fuzz}) {
    Engine engine({.scheduler = scheduler, .workers = 2});
    Var var = engine.new_var(), mine = engine.new_var();
    std::atomic<bool> stop = false;
    std::atomic<int> ahead = 0;
    std::thread pusher([&] {
      while (!stop) {
        while (!stop && ahead > 100) std::this_thread::yield();
        ++ahead;
        engine.push([&] { --ahead; }, {.mutate = {var}});
      }
    });
    int value = 0;
    for (int i = 1; i <= 20; ++i) {
      engine.push([&] { ++value; }, {.mutate = {mine}});
      engine.wait_all();
      CHECK(value == i);
    }
    stop = true;
    pusher.join();
  }
}

TEST_CASE("destructors of closures may push and wait") {
  on_every_scheduler([](Engine& engine) {
    struct AtEnd {
      std::function<void()> act;
      ~AtEnd() { act(); }
    };
    Var var = engine.new_var(), other = engine.new_var();
    int value = 0, seen = 0;
    auto at_end = std::make_shared<AtEnd>();
    at_end->act = [&] {
      engine.push([&] { value = 3; }, {.mutate = {other}});
      engine.wait(other);
      seen = value;
    };
    engine.push([held = std::move(at_end)] {}, {.mutate = {var}});
    engine.wait(var);
    CHECK(seen == 3);
  });
}

TEST_CASE("ops of one engine inside ops of another, on one stack") {
  on_every_scheduler([](Engine& outer) {
    for (const EngineOptions& options : {kSchedulers[0], kSchedulers[3]}) {
      Engine inner(options);
      Var a = outer.new_var(), b = outer.new_var(), c = inner.new_var();
      int value = 0, seen = 0;
      bool refused = false;
      outer.push(
          [&] {
            inner.push(
                [&] {
                  outer.push([&] { value = 5; }, {.mutate = {b}});
                  outer.wait(b);
                  seen = value;
                  try {
                    outer.wait(a);  // refused, since the op two levels up the stack mutates `a`
                  } catch (const WouldDeadlock&) {
                    refused = true;
                  }
                },
                {.mutate = {c}});
            inner.wait(c);
          },
          {.mutate = {a}});
      outer.wait(a);
      CHECK(seen == 5);
      CHECK(refused);
    }
  });
}

TEST_CASE("an op waits for what another ready op completes") {
  for (const EngineOptions& options : {kSchedulers[1], kSchedulers[2], kSchedulers[3]}) {
    Engine engine(options);
    Var late = engine.new_var();
    std::shared_ptr<Completion> completion;
    int value = 0, seen = 0;
    auto complete = [&] {
      value = 7;
      completion->done();
    };
    auto wait_for_it = [&] {
      engine.push(complete);
      engine.wait(late);
      seen = value;
    };
    engine.push_async(
        [&](RunContext&, Completion done) {
          completion = std::make_shared<Completion>(std::move(done));
          engine.push(wait_for_it);
        },
        {.mutate = {late}});
    engine.wait_all();
    CHECK(seen == 7);
  }
}

TEST_CASE("a wait inside an op with a hundred thousand ops behind it") {
  Engine engine({.workers = 2});
  Var mine = engine.new_var(), other = engine.new_var(), gate = engine.new_var();
  std::atomic<bool> go = false;
  bool refused = false;
  engine.push(
      [&] {
        while (!go) std::this_thread::yield();
        engine.push([] {}, {.read = {mine}, .mutate = {other}});
        try {
          engine.wait(other);
        } catch (const WouldDeadlock&) {
          refused = true;
        }
      },
      {.mutate = {mine}});
  for (int i = 0; i < 100000; ++i) {
    engine.push([] {}, i % 10 == 0 ? Access{.mutate = {mine}} : Access{.read = {mine}});
  }
  go = true;
  engine.wait(mine);
  CHECK(refused);
}

TEST_CASE("an engine may go the moment its last completion was called") {
  for (int round = 0; round < 300; ++round) {
    std::thread finisher;
    {
      Engine engine({.workers = 1});
      engine.push_async([&](RunContext&, Completion done) {
        finisher = std::thread([moved = std::move(done)]() mutable { moved.done(); });
      });
    }
    finisher.join();
  }
}

TEST_CASE("a worker whose ops were short hangs in a long one, and so does the one that came to its help") {
  Engine engine({.workers = 3});
  for (int round = 0; round < 30; ++round) {
    std::vector<std::unique_ptr<Completion>> gates;
    std::atomic<int> issued = 0, inside = 0;
    std::atomic<bool> flag = false;
    // For each of two lanes a chain of short ops with a long op at its end. The ops are entered before the
    // first one may run.
    for (int lane = 0; lane < 2; ++lane) {
      Var var = engine.new_var(), end = engine.new_var();
      engine.push_async(
          [&](RunContext&, Completion done) {
            gates.push_back(std::make_unique<Completion>(std::move(done)));
            ++issued;
          },
          {.mutate = {var}});
      while (issued == lane) std::this_thread::yield();
      for (int i = 0; i < 500; ++i) engine.push([] {}, {.mutate = {var}});
      engine.push(
          [&] {
            ++inside;
            while (!flag) std::this_thread::yield();
          },
          {.mutate = {var}});
      engine.push([] {}, {.mutate = {end}});
      engine.wait(end);
    }
    // Usually long enough for all workers to fall asleep.
    for (int i = 0; i < 1000; ++i) std::this_thread::yield();
    for (int lane = 0; lane < 2; ++lane) {
      gates[lane]->done();
      while (inside == lane) std::this_thread::yield();
    }
    engine.push([&] { flag = true; });
    while (!flag) std::this_thread::yield();
    engine.wait_all();
  }
}

TEST_CASE("an op that has waited goes on while short ops follow each other without end") {
  constexpr int kBefore = 1000;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  Engine engine({.workers = 1});
  Var awaited = engine.new_var(), chain = engine.new_var();
  std::optional<Completion> held;
  std::atomic<bool> went_on = false;
  int links = 0;
  engine.push_async([&](RunContext&, Completion done) { held.emplace(std::move(done)); },
                    {.mutate = {awaited}});
  engine.push([&] {
    engine.wait(awaited);
    went_on = true;
  });
  std::function<void()> link = [&] {
    if (++links == kBefore) held->done();
    if (!went_on && std::chrono::steady_clock::now() < end) engine.push(link, {.mutate = {chain}});
  };
  engine.push(link, {.mutate = {chain}});
  engine.wait_all();
  CHECK(links >= kBefore);
  CHECK(std::chrono::steady_clock::now() < end);
}
