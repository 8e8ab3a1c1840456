#include <atomic>
#include <numeric>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/engine.h>
#include <heddle/parallel.h>

using namespace heddle;

TEST_CASE("every index is visited once, in chunks that depend on count and grain alone") {
  for (int workers : {1, 2, 4}) {
    Engine engine({.workers = workers});
    Var var = engine.new_var();
    for (std::int64_t count : {0, 1, 7, 64, 1000}) {
      for (std::int64_t grain : {1, 3, 64, 5000}) {
        std::vector<int> visits(static_cast<std::size_t>(count), 0);
        std::atomic<bool> chunks_ok = true;
        engine.push(
            [&] {
              parallel_for(count, grain, [&](std::int64_t begin, std::int64_t end) {
                if (begin % grain != 0 || end != std::min(begin + grain, count)) chunks_ok = false;
                for (auto i = begin; i < end; ++i) ++visits[static_cast<std::size_t>(i)];
              });
            },
            {.mutate = {var}});
        engine.wait(var);
        CHECK(chunks_ok);
        CHECK(std::all_of(visits.begin(), visits.end(), [](int n) { return n == 1; }));
      }
    }
  }
}

TEST_CASE("idle workers join in") {
  Engine engine({.workers = 3});
  Var var = engine.new_var();
  std::atomic<int> inside = 0;
  // The three chunks wait for each other, so the op ends only if three threads run them.
  engine.push(
      [&] {
        parallel_for(3, 1, [&](std::int64_t, std::int64_t) {
          inside.fetch_add(1);
          while (inside.load() < 3) std::this_thread::yield();
        });
      },
      {.mutate = {var}});
  engine.wait(var);
  CHECK(inside == 3);
}

TEST_CASE("an exception in a chunk is the op's error, and no chunk runs after the loop ended") {
  for (int workers : {1, 2, 4}) {
    Engine engine({.workers = workers});
    Var var = engine.new_var();
    for (int round = 0; round < 100; ++round) {
      engine.push(
          [] {
            std::vector<int> local(100, 0);
            parallel_for(100, 1, [&](std::int64_t begin, std::int64_t) {
              local[static_cast<std::size_t>(begin)] = 1;
              if (begin == 50) throw std::out_of_range("chunk 50");
            });
          },
          {.mutate = {var}});
      CHECK_THROWS_AS(engine.wait(var), std::out_of_range);
    }
    engine.clear_error(var);
    engine.wait_all();
  }
}

TEST_CASE("loops of several ops at once, nested loops, and loops outside ops") {
  Engine engine({.workers = 4});
  std::vector<Var> vars;
  std::vector<std::int64_t> sums(16, 0);
  for (std::size_t i = 0; i < 16; ++i) vars.push_back(engine.new_var());
  for (int round = 0; round < 50; ++round) {
    for (std::size_t i = 0; i < 16; ++i) {
      engine.push(
          [&, i] {
            std::vector<std::int64_t> parts(10, 0);
            parallel_for(10, 1, [&](std::int64_t part, std::int64_t) {
              std::atomic<std::int64_t> inner = 0;
              parallel_for(100, 9, [&](std::int64_t begin, std::int64_t end) {
                for (auto k = begin; k < end; ++k) inner += k;
              });
              parts[static_cast<std::size_t>(part)] = inner;
            });
            sums[i] += std::accumulate(parts.begin(), parts.end(), std::int64_t{0});
          },
          {.read = {vars[i]}, .mutate = {vars[i]}});
    }
  }
  engine.wait_all();
  for (std::int64_t sum : sums) CHECK(sum == 50 * 10 * 4950);
  std::int64_t serial = 0;
  parallel_for(10, 4, [&](std::int64_t begin, std::int64_t end) { serial += end - begin; });
  CHECK(serial == 10);
  const auto never = [](std::int64_t, std::int64_t) { FAIL("a chunk of no loop"); };
  for (std::int64_t bad : {0, -1}) CHECK_THROWS_AS(parallel_for(10, bad, never), InvalidArgument);
  CHECK_THROWS_WITH_AS(parallel_for(-5, 1, never), "parallel_for: count is -5, want at least 0",
                       InvalidArgument);
  CHECK_NOTHROW(parallel_for(0, 1, never));
}

TEST_CASE("a wait inside a chunk is a wait inside the op") {
  Engine engine({.workers = 2});
  Var a = engine.new_var(), b = engine.new_var();
  std::atomic<int> value = 0;
  engine.push(
      [&] {
        engine.push([&] { value = 3; }, {.mutate = {b}});
        parallel_for(4, 1, [&](std::int64_t, std::int64_t) { engine.wait(b); });
        CHECK(value == 3);
        parallel_for(4, 1, [&](std::int64_t, std::int64_t) { engine.wait(a); });
      },
      {.mutate = {a}});
  CHECK_THROWS_AS(engine.wait(a), WouldDeadlock);
}
