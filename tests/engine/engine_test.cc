#include <atomic>
#include <cstdlib>
#include <limits>
#include <memory>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/engine.h>
#include <heddle/graph.h>
#include <heddle/parallel.h>
#include <heddle/stream_ops.h>
#include <heddle/var_use.h>

#include "schedulers.h"

using namespace heddle;
using namespace heddle::test;

namespace {

struct Environment {
  Environment(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    setenv(name, value, 1);
  }
  ~Environment() { old_.empty() ? unsetenv(name_) : setenv(name_, old_.c_str(), 1); }
  const char* name_;
  std::string old_;
};

}  // namespace

TEST_CASE("the example of the lecture") {
  on_every_scheduler([](Engine& engine) {
    int a = 0, b = 0, d = 0;
    Var va = engine.new_var(), vb = engine.new_var(), vd = engine.new_var();
    engine.push([&] { a = 2; }, {.mutate = {va}});
    engine.push([&] { b = a + 1; }, {.read = {va}, .mutate = {vb}});
    engine.push([&] { d = a * b; }, {.read = {va, vb}, .mutate = {vd}});
    engine.push([&] { a = 10; }, {.mutate = {va}});
    engine.wait(vd);
    CHECK(d == 6);
    engine.wait_all();
    CHECK(a == 10);
  });
}

TEST_CASE("access lists: none, repeats, overlap, thousands") {
  on_every_scheduler([](Engine& engine) {
    int value = 1;
    Var var = engine.new_var();
    std::atomic<int> runs = 0;
    engine.push([&] { ++runs; });
    engine.push([&] { ++runs; }, {.read = {var, var, var}});
    engine.push([&] { value *= 3; }, {.read = {var, var}, .mutate = {var, var}});
    engine.push([&] { value += 4; }, {.read = {var}, .mutate = {var}});
    std::vector<Var> many;
    for (int i = 0; i < 3000; ++i) many.push_back(engine.new_var());
    engine.push([&] { ++runs; }, {.read = many, .mutate = many});
    engine.push([&] { ++runs; }, {.mutate = {many[17]}});
    engine.wait_all();
    CHECK(value == 7);
    CHECK(runs == 4);
  });
}

TEST_CASE("bad access lists are refused at the call and nothing is lost") {
  on_every_scheduler([](Engine& engine) {
    Engine other({.scheduler = Scheduler::naive});
    Var mine = engine.new_var(), foreign = other.new_var();
    bool ran = false;
    CHECK_THROWS_AS(engine.push([&] { ran = true; }, {.read = {mine}, .mutate = {Var()}}), InvalidArgument);
    CHECK_THROWS_AS(engine.push([&] { ran = true; }, {.mutate = {mine, foreign}}), InvalidArgument);
    CHECK_THROWS_AS(engine.prepare([&] { ran = true; }, {.mutate = {foreign}}), InvalidArgument);
    CHECK_THROWS_AS(engine.wait(Var()), InvalidArgument);
    CHECK_THROWS_AS(engine.wait(foreign), InvalidArgument);
    CHECK_THROWS_AS(engine.clear_error(foreign), InvalidArgument);
    CHECK_THROWS_AS(engine.error_of(foreign), InvalidArgument);
    const Var kept = std::move(mine);
    CHECK_THROWS_WITH_AS(engine.wait(mine),
                         "wait: an empty Var, never made or moved from; vars are made by Engine::new_var",
                         InvalidArgument);
    CHECK_THROWS_WITH_AS(engine.push([] {}, {.read = {foreign}, .name = "sum"}),
                         "op 'sum', access list: a Var of another engine; want one that this engine made",
                         InvalidArgument);
    mine = kept;
    CHECK_THROWS_AS(other.push(engine.prepare([] {}, {.mutate = {mine}})), InvalidArgument);
    engine.wait_all();
    CHECK_FALSE(ran);
  });
}

TEST_CASE("a name that is a null pointer is refused at the call") {
  on_every_scheduler([](Engine& engine) {
    const Var var = engine.new_var();
    Stream& stream = engine.stream(cpu());
    const Access nameless{.mutate = {var}, .name = nullptr};
    const char* const no_name = nullptr;
    CHECK_THROWS_WITH_AS(engine.push([] {}, nameless),
                         "push: Access::name is a null pointer; want a string that outlives the op",
                         InvalidArgument);
    CHECK_THROWS_AS(engine.push_async([](RunContext&, Completion done) { done.done(); }, nameless),
                    InvalidArgument);
    CHECK_THROWS_AS(engine.prepare([] {}, nameless), InvalidArgument);
    CHECK_THROWS_AS(engine.push_on(
                        stream, [](Stream&) {}, nameless),
                    InvalidArgument);
    CHECK_THROWS_AS(engine.push([] {}, {.read = {Var()}, .name = no_name}), InvalidArgument);
    CHECK_THROWS_AS(engine.capture([] {}, no_name), InvalidArgument);
    CHECK_THROWS_AS(engine.capture([&] { engine.push([] {}, nameless); }), InvalidArgument);
    engine.wait_all();
  });
}

TEST_CASE("consecutive reads run together, writes alone") {
  Engine engine({.workers = 4});
  Var var = engine.new_var();
  std::atomic<int> inside = 0;
  // Each reader waits for the other one, so this ends only if they run at the same time.
  for (int i = 0; i < 2; ++i) {
    engine.push(
        [&] {
          inside.fetch_add(1);
          while (inside.load() < 2) std::this_thread::yield();
        },
        {.read = {var}});
  }
  engine.wait_all();
  int writers = 0;
  bool alone = true;
  for (int i = 0; i < 1000; ++i) {
    engine.push([&] { alone = alone && ++writers == 1 && --writers == 0; }, {.mutate = {var}});
  }
  engine.wait(var);
  CHECK(alone);
}

TEST_CASE("prepared ops run at every push, in order, and outlive their handle") {
  on_every_scheduler([](Engine& engine) {
    int value = 0;
    Var var = engine.new_var();
    auto alive = std::make_shared<int>(0);
    {
      PreparedOp twice = engine.prepare([&, alive] { value = 2 * value + 1; }, {.mutate = {var}});
      PreparedOp copy = twice;
      for (int i = 0; i < 5; ++i) engine.push(copy);
    }
    engine.wait_all();
    CHECK(value == 31);
    CHECK(alive.use_count() == 1);
  });
}

TEST_CASE("asynchronous ops end when their completion says so") {
  on_every_scheduler([](Engine& engine) {
    Var var = engine.new_var();
    int value = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < 10; ++i) {
      engine.push_async(
          [&](RunContext&, Completion completion) {
            threads.emplace_back([&, done = std::move(completion)]() mutable {
              ++value;
              done.done();
              done.done();  // has no effect, since the op is done
            });
          },
          {.mutate = {var}});
    }
    engine.wait(var);
    CHECK(value == 10);
    for (std::thread& thread : threads) thread.join();
  });
}

TEST_CASE("a closure is destroyed before a wait on its vars returns") {
  on_every_scheduler([](Engine& engine) {
    Var var = engine.new_var();
    for (int i = 0; i < 100; ++i) {
      auto held = std::make_shared<int>(i);
      engine.push([held] {}, {.mutate = {var}});
      engine.wait(var);
      CHECK(held.use_count() == 1);
    }
  });
}

TEST_CASE("a copy of the closure that throws leaves nothing behind") {
  struct Throws {
    Throws() = default;
    Throws(const Throws&) { throw std::runtime_error("copy"); }
    void operator()() {}
  };
  on_every_scheduler([](Engine& engine) {
    Var var = engine.new_var();
    Throws op;
    CHECK_THROWS_AS(engine.push(op, {.mutate = {var}}), std::runtime_error);
    engine.wait_all();
  });
}

TEST_CASE("dropped handles do not disturb queued ops, and vars may outlive the engine") {
  for (const EngineOptions& options : kSchedulers) {
    Var survivor;
    std::atomic<int> runs = 0;
    {
      Engine engine(options);
      survivor = engine.new_var();
      for (int i = 0; i < 100; ++i) {
        Var temporary = engine.new_var();
        engine.push([&] { ++runs; }, {.read = {survivor}, .mutate = {temporary}});
      }
      engine.push([&] { ++runs; }, {.mutate = {survivor}});
    }
    CHECK(runs == 101);
    Var copy = survivor;
    CHECK(copy == survivor);
  }
}

TEST_CASE("the context names the op and counts in push order") {
  on_every_scheduler([](Engine& engine) {
    Var var = engine.new_var();
    std::string name;
    std::vector<std::uint64_t> order;
    int worker = -2;
    for (int i = 0; i < 3; ++i) {
      engine.push(
          [&](RunContext& context) {
            name = context.name;
            worker = context.worker;
            order.push_back(context.sequence);
          },
          {.mutate = {var}, .name = "named"});
    }
    engine.wait(var);
    CHECK(name == "named");
    CHECK(worker >= 0);
    CHECK(worker < engine.workers());
    REQUIRE(order.size() == 3);
    CHECK(order[0] < order[1]);
    CHECK(order[1] < order[2]);
  });
}

TEST_CASE("many engines at once, made and destroyed under load") {
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> runs = 0;
    {
      Engine first({.workers = 2}), second({.workers = 3});
      Var a = first.new_var(), b = second.new_var();
      for (int i = 0; i < 500; ++i) {
        first.push([&] { ++runs; }, {.mutate = {a}});
        second.push([&] { ++runs; }, {.read = {b}});
      }
    }
    CHECK(runs == 1000);
  }
}

TEST_CASE("options come from the environment, and bad ones are refused with the choices") {
  {
    Environment scheduler("HEDDLE_SCHEDULER", "fuzz:42"), workers("HEDDLE_WORKERS", "3");
    const EngineOptions options = EngineOptions::from_environment();
    CHECK(options.scheduler == Scheduler::fuzz);
    CHECK(options.seed == 42);
    CHECK(options.workers == 3);
  }
  for (const char* bad : {"fast", "fuzz:", "fuzz:x", "fuzz:-1", "Naive", "naive "}) {
    CAPTURE(bad);
    Environment scheduler("HEDDLE_SCHEDULER", bad);
    CHECK_THROWS_AS(EngineOptions::from_environment(), InvalidArgument);
  }
  for (const char* bad : {"-1", "two", "2x", "99999", "99999999999999"}) {
    CAPTURE(bad);
    Environment workers("HEDDLE_WORKERS", bad);
    CHECK_THROWS_AS(EngineOptions::from_environment(), InvalidArgument);
  }
  for (const char* good : {"", "0", "1"}) {
    Environment check("HEDDLE_CHECK", good);
    CHECK_NOTHROW(EngineOptions::from_environment());
  }
  for (const char* bad : {"off", "true", "2", "1 "}) {
    CAPTURE(bad);
    Environment check("HEDDLE_CHECK", bad);
    CHECK_THROWS_AS(EngineOptions::from_environment(), InvalidArgument);
  }
  CHECK_THROWS_AS(Engine({.workers = -1}), InvalidArgument);
}

TEST_CASE("how long an idle worker looks for work is an option, and bad values are refused") {
  CHECK(EngineOptions{}.spin == 0);
  {
    Environment spin("HEDDLE_SPIN", "0.02");
    CHECK(EngineOptions::from_environment().spin == 0.02);
  }
  for (const char* bad : {"-1", "long", "1ms", "nan", "inf", "1e10"}) {
    CAPTURE(bad);
    Environment spin("HEDDLE_SPIN", bad);
    CHECK_THROWS_AS(EngineOptions::from_environment(), InvalidArgument);
  }
  for (double bad : {-0.1, 2e9, std::numeric_limits<double>::quiet_NaN()}) {
    CHECK_THROWS_AS(Engine({.spin = bad}), InvalidArgument);
  }
}

// Workers that spin for ever leave ops to other workers, and end when their engine is destroyed.
TEST_CASE("workers that look for work without end") {
  for (int workers : {1, 3}) {
    Engine engine({.workers = workers, .spin = 1e9});
    const Var a = engine.new_var(), b = engine.new_var();
    int sum = 0;
    for (int round = 0; round < 1000; ++round) {
      engine.push([&] { ++sum; }, {.mutate = {a}});
      engine.push(
          [&] {
            engine.push([&] { ++sum; }, {.mutate = {a}});
            engine.wait(a);
          },
          {.mutate = {b}});
      if (round % 100 == 0) engine.wait(b);
    }
    engine.wait_all();
    CHECK(sum == 2000);
  }
}

TEST_CASE("a loop whose chunks wait, beside workers that spin") {
  for (int workers : {2, 4}) {
    Engine engine({.workers = workers, .spin = 0.001});
    const Var v = engine.new_var();
    std::atomic<int> sum{0};
    for (int round = 0; round < 200; ++round) {
      engine.push(
          [&] {
            parallel_for(4, 1, [&](std::int64_t, std::int64_t) {
              const Var inner = engine.new_var();
              engine.push([&] { ++sum; }, {.mutate = {inner}});
              engine.wait(inner);
            });
          },
          {.mutate = {v}});
      engine.wait(v);
    }
    CHECK(sum == 800);
  }
}

TEST_CASE("the default engine and scopes") {
  CHECK(&current_engine() == &default_engine());
  CHECK_THROWS_AS(set_default_engine_options({}), Error);
  CHECK_THROWS_AS(set_default_engine_options({.workers = -1}), InvalidArgument);
  Engine mine({.scheduler = Scheduler::naive});
  {
    EngineScope scope(mine);
    CHECK(&current_engine() == &mine);
    {
      EngineScope inner(default_engine());
      CHECK(&current_engine() == &default_engine());
    }
    CHECK(&current_engine() == &mine);
  }
  CHECK(&current_engine() == &default_engine());
}

TEST_CASE("a var knows the engine that made it, and can be waited for when that is destroyed") {
  auto engine = std::make_unique<Engine>(EngineOptions{.workers = 1});
  const Var good = engine->new_var(), bad = engine->new_var();
  CHECK(engine_of(good).load() == engine.get());
  CHECK_FALSE(has_ended(*engine));
  int value = 0;
  engine->push([&] { value = 1; }, {.mutate = {good}});
  engine->push([] { throw Error("it failed"); }, {.mutate = {bad}});
  wait_on(good);
  CHECK(value == 1);
  CHECK_THROWS_WITH_AS(wait_on(bad), "it failed", Error);
  engine.reset();
  CHECK(engine_of(good).load() == nullptr);
  wait_on(good);
  CHECK_THROWS_WITH_AS(wait_on(bad), "it failed", Error);
  CHECK_THROWS_AS(wait_on(Var()), InvalidArgument);
  CHECK_THROWS_AS(engine_of(Var()), InvalidArgument);
}

TEST_CASE("a fuzz seed replays its schedule, and seeds differ") {
  auto schedule = [](std::uint64_t seed) {
    Engine engine({.scheduler = Scheduler::fuzz, .seed = seed});
    std::vector<int> order;
    for (int i = 0; i < 50; ++i) engine.push([&, i] { order.push_back(i); });
    engine.wait_all();
    return order;
  };
  CHECK(schedule(1) == schedule(1));
  CHECK(schedule(1) != schedule(2));
}

TEST_CASE("an idle worker takes over what a busy one made ready") {
  Engine engine({.workers = 2});
  Var gate = engine.new_var();
  std::atomic<int> at_once = 0;
  engine.push([] {}, {.mutate = {gate}});
  for (int i = 0; i < 2; ++i) {
    engine.push(
        [&] {
          at_once.fetch_add(1);
          while (at_once.load() < 2) std::this_thread::yield();
        },
        {.read = {gate}});
  }
  engine.wait_all();
  CHECK(at_once == 2);
}
