// Bulks: many pushes that take effect at once.
#include <atomic>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/bulk.h>

#include "schedulers.h"

using namespace heddle;
using heddle::test::on_every_scheduler;

TEST_CASE("ops of a bulk run after its commit, in their order") {
  on_every_scheduler([](Engine& engine) {
    Var var = engine.new_var();
    std::vector<int> ran;
    Bulk bulk(engine);
    bulk.commit();  // nothing
    for (int round = 0; round < 3; ++round) {
      for (int i = 0; i < 500; ++i) bulk.push([&ran, i] { ran.push_back(i); }, {.mutate = {var}});
      engine.push([&] { ran.push_back(-1); }, {.mutate = {var}});
      engine.wait(var);
      CHECK(ran == std::vector{-1});
      bulk.commit();
      engine.wait(var);
      REQUIRE(ran.size() == 501);
      for (int i = 0; i < 500; ++i) CHECK(ran[static_cast<std::size_t>(i) + 1] == i);
      ran.clear();
    }
  });
}

TEST_CASE("the destructor commits; ops may be asynchronous, prepared, in groups and of any priority") {
  on_every_scheduler([](Engine& engine) {
    Var a = engine.new_var(), b = engine.new_var(), c = engine.new_var();
    Group group;
    group.cancel();
    int value = 0;
    PreparedOp twice = engine.prepare([&] { value *= 2; }, {.read = {a}, .mutate = {a}});
    {
      Bulk bulk(engine);
      bulk.push([&] { value = 3; }, {.mutate = {a}, .priority = 7});
      bulk.push(twice);
      bulk.push_async(
          [&](RunContext&, Completion done) {
            ++value;
            done.done();
          },
          {.read = {a}, .mutate = {a}});
      bulk.push(twice);
      bulk.push([&] { value = -1; }, {.mutate = {c}, .group = group});
      bulk.push([] { throw std::runtime_error("expected"); }, {.mutate = {b}, .priority = -7});
    }
    engine.wait(a);
    CHECK(value == 14);
    CHECK_THROWS_AS(engine.wait(b), std::runtime_error);
    CHECK_THROWS_AS(engine.wait(c), Cancelled);
  });
}

TEST_CASE("no op of another thread comes between the ops of a bulk") {
  on_every_scheduler([](Engine& engine) {
    Var var = engine.new_var();
    constexpr int kThreads = 4, kBulks = 50, kOps = 20;
    std::vector<int> ran;
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < kBulks; ++i) {
          Bulk bulk(engine);
          for (int op = 0; op < kOps; ++op) bulk.push([&ran, t] { ran.push_back(t); }, {.mutate = {var}});
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    engine.wait(var);
    REQUIRE(ran.size() == kThreads * kBulks * kOps);
    int broken = 0;
    for (std::size_t i = 0; i < ran.size(); ++i) broken += ran[i] != ran[i / kOps * kOps];
    CHECK(broken == 0);
  });
}

TEST_CASE("handles may go before the commit") {
  on_every_scheduler([](Engine& engine) {
    std::atomic<int> ran = 0;
    for (int round = 0; round < 50; ++round) {
      Bulk bulk(engine);
      for (int i = 0; i < 20; ++i) {
        Var a = engine.new_var(), b = engine.new_var();
        bulk.push([&] { ++ran; }, {.mutate = {a, b}});
        bulk.push([&] { ++ran; }, {.read = {a}, .mutate = {b}});
        bulk.push(engine.prepare([&] { ++ran; }, {.read = {b}, .mutate = {a}}));
      }
      engine.wait_all();
    }
    engine.wait_all();
    CHECK(ran == 3000);
  });
}

TEST_CASE("an op pushes a bulk and waits for its last op") {
  on_every_scheduler([](Engine& engine) {
    Var outer = engine.new_var();
    int sum = 0;
    for (int round = 0; round < 20; ++round) {
      engine.push(
          [&] {
            Var inner = engine.new_var();
            int part = 0;
            Bulk bulk(engine);
            for (int i = 1; i <= 200; ++i) bulk.push([&part, i] { part += i; }, {.mutate = {inner}});
            bulk.commit();
            engine.wait(inner);
            sum += part;
          },
          {.mutate = {outer}});
    }
    engine.wait(outer);
    CHECK(sum == 20 * 20100);
  });
}

TEST_CASE("ops of a bulk come before what its ops push") {
  on_every_scheduler([](Engine& engine) {
    Var a = engine.new_var(), b = engine.new_var();
    std::vector<int> ran;
    {
      Bulk bulk(engine);
      bulk.push(
          [&] {
            engine.push([&] { ran.push_back(3); }, {.mutate = {b}});
            engine.wait(b);
          },
          {.mutate = {a}});
      bulk.push([&] { ran.push_back(1); }, {.mutate = {b}});
      bulk.push([&] { ran.push_back(2); }, {.mutate = {b}});
    }
    engine.wait_all();
    CHECK(ran == std::vector{1, 2, 3});
  });
}

TEST_CASE("a bad push leaves the bulk as it was") {
  struct CannotCopy {
    CannotCopy() = default;
    CannotCopy(const CannotCopy&) { throw std::runtime_error("no copy"); }
    void operator()() const {}
  };
  on_every_scheduler([](Engine& engine) {
    Var var = engine.new_var();
    int ran = 0;
    CannotCopy cannot;
    Bulk bulk(engine);
    bulk.push([&] { ++ran; }, {.mutate = {var}});
    CHECK_THROWS_AS(bulk.push(cannot, {.mutate = {var}}), std::runtime_error);
    CHECK_THROWS_AS(bulk.push([] {}, {.read = {Var()}}), InvalidArgument);
    bulk.push([&] { ++ran; }, {.mutate = {var}});
    bulk.commit();
    engine.wait(var);
    CHECK(ran == 2);
  });
}

TEST_CASE("bulks on engines with bounds do not wait for themselves") {
  for (const EngineOptions& scheduler : test::kSchedulers) {
    EngineOptions options = scheduler;
    options.max_ops = 2;
    Engine engine(options);
    std::atomic<int> ran = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&] {
        Bulk one(engine), two(engine);
        for (int i = 0; i < 50; ++i) {
          one.push([&] { ++ran; });
          two.push([&] { ++ran; });
          engine.push([&] { ++ran; });
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    engine.wait_all();
    CHECK(ran == 450);
  }
}
