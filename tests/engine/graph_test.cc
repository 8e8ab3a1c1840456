#include <algorithm>
#include <atomic>
#include <latch>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/graph.h>

#include "arguments.h"
#include "random_program.h"
#include "schedulers.h"

using namespace heddle;
using namespace heddle::test;

TEST_CASE("programs of which parts are captured and launched give what pushing all of it to naive gives") {
  const auto programs = argument("programs", kSanitized ? 6 : 100);
  for (long long program_seed = 0; program_seed < programs; ++program_seed) {
    CAPTURE(program_seed);
    const auto seed = static_cast<std::uint64_t>(program_seed);
    const Program program = random_program(seed + 1000, 600, seed % 4 == 0 ? 4 : 60);
    const std::vector<Stretch> plan = random_plan(seed, program);
    const EngineOptions naive{.scheduler = Scheduler::naive};
    const Outcome expected = run_plan(program, plan, naive, false);
    REQUIRE(run_plan(program, plan, naive, true) == expected);
    for (int workers : {1, 2, 4, 16}) {
      CAPTURE(workers);
      REQUIRE(run_plan(program, plan, {.workers = workers}, true) == expected);
    }
    REQUIRE(run_plan(program, plan, {.scheduler = Scheduler::fuzz, .seed = seed}, true) == expected);
  }
}

// Of a graph without asynchronous ops a single thread may run all ops. The engine decides about that anew
// between launches.
TEST_CASE("synchronous programs, launched many times") {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    CAPTURE(seed);
    Program program = random_program(seed, 200, 40);
    for (ProgramOp& op : program.ops) op.kind = seed % 2 ? Kind::sync : Kind::prepared;
    for (ProgramOp& op : program.ops) op.fails &= seed % 3 == 0;
    const std::vector<Stretch> plan(80, Stretch{0, program.ops.size(), true});
    const Outcome expected = run_plan(program, plan, {.scheduler = Scheduler::naive}, false);
    for (int workers : {1, 2, 4}) {
      CAPTURE(workers);
      REQUIRE(run_plan(program, plan, {.workers = workers}, true) == expected);
    }
    REQUIRE(run_plan(program, plan, {.scheduler = Scheduler::fuzz, .seed = seed}, true) == expected);
  }
}

TEST_CASE("a capture runs nothing, each launch runs all in order with what is pushed around it") {
  on_every_scheduler([](Engine& engine) {
    const Var a = engine.new_var(), b = engine.new_var();
    int x = 1, y = 0;
    Graph graph = engine.capture([&] {
      engine.push([&] { x *= 2; }, {.read = {a}, .mutate = {a}});
      engine.push([&] { y = x + 1; }, {.read = {a}, .mutate = {b}});
    });
    CHECK(graph.size() == 2);
    engine.wait_all();
    CHECK(x == 1);
    graph.launch();
    engine.push([&] { x += 10; }, {.mutate = {a}});
    graph.launch();
    engine.wait(b);
    CHECK(x == 24);
    CHECK(y == 25);
  });
}

TEST_CASE("ops of a graph know their own names, and numbers that are a serial order") {
  on_every_scheduler([](Engine& engine) {
    const Var a = engine.new_var();
    std::vector<std::string> names;
    std::vector<std::uint64_t> numbers;
    const auto note = [&](RunContext& context) {
      names.push_back(context.name);
      numbers.push_back(context.sequence);
    };
    Graph graph = engine.capture([&] {
      engine.push(note, {.mutate = {a}, .name = "first"});
      engine.push(note, {.mutate = {a}, .name = "second"});
    });
    graph.launch();
    engine.push(note, {.mutate = {a}, .name = "between"});
    graph.launch();
    graph.launch();
    engine.wait_all();
    CHECK(names ==
          std::vector<std::string>{"first", "second", "between", "first", "second", "first", "second"});
    CHECK(std::is_sorted(numbers.begin(), numbers.end()));
    CHECK(std::adjacent_find(numbers.begin(), numbers.end()) == numbers.end());
  });
}

TEST_CASE("each launch sees the values bound to it, however many are queued") {
  on_every_scheduler([](Engine& engine) {
    const Var a = engine.new_var();
    std::string text;
    Slot<std::string> word;
    Slot<int> times;
    Graph graph = engine.capture([&] {
      word = engine.slot<std::string>();
      times = engine.slot<int>();
      engine.push(
          [&text, word, times] {
            for (int i = 0; i < *times; ++i) text += *word;
          },
          {.mutate = {a}});
    });
    CHECK_THROWS_AS(graph.launch(word.bind("x")), InvalidArgument);
    graph.set(times, 1);
    engine.push([] { std::this_thread::yield(); }, {.mutate = {a}});
    for (int i = 0; i < 10; ++i) graph.launch(word.bind(std::to_string(i)));
    graph.set(times, 2);
    graph.launch(word.bind("a"));
    graph.launch(word.bind("b"), times.bind(3));
    graph.launch(word.bind("c"));
    engine.wait(a);
    CHECK(text == "0123456789aabbbcc");
    CHECK_THROWS_AS(word.get(), Error);
    CHECK_THROWS_AS(Slot<int>().get(), InvalidArgument);
  });
}

TEST_CASE("errors go through a graph as through pushes, and a later launch overwrites them") {
  on_every_scheduler([](Engine& engine) {
    const Var a = engine.new_var(), b = engine.new_var(), c = engine.new_var();
    std::atomic<int> value = 0;  // atomic, since ops that have no var in common change it
    Slot<bool> bad;
    Graph graph = engine.capture([&] {
      bad = engine.slot<bool>();
      engine.push(
          [bad] {
            if (*bad) throw std::runtime_error("bad");
          },
          {.mutate = {a}, .name = "source"});
      engine.push([&] { ++value; }, {.read = {a}, .mutate = {b}, .name = "middle"});
      engine.push([&] { value += 10; }, {.mutate = {c}, .name = "other"});
    });
    graph.launch(bad.bind(true));
    CHECK_THROWS_WITH(engine.wait(b), "bad");
    engine.wait(c);
    CHECK(value == 10);
    const ErrorReport report = engine.error_of(b);
    CHECK(report.op == "source");
    REQUIRE(report.path.size() == 1);
    CHECK(report.path[0].starts_with("middle at "));
    graph.launch(bad.bind(false));
    engine.wait(b);
    CHECK(value == 21);
    engine.wait_all();
  });
}

TEST_CASE("poison from before a launch skips what reads it and stays where nothing overwrites it") {
  on_every_scheduler([](Engine& engine) {
    const Var read = engine.new_var(), kept = engine.new_var(), cleared = engine.new_var();
    for (const Var& var : {read, kept, cleared}) {
      engine.push([] { throw std::runtime_error("old"); }, {.mutate = {var}});
    }
    std::atomic<int> runs = 0;  // atomic, since ops that have no var in common change it
    Graph graph = engine.capture([&] {
      engine.push([&] { ++runs; }, {.read = {read}, .mutate = {kept}});
      engine.clear_error(cleared);
      engine.push([&] { ++runs; }, {.read = {cleared}});
    });
    graph.launch();
    CHECK_THROWS_WITH(engine.wait(kept), "old");
    CHECK_THROWS_WITH(engine.wait(read), "old");
    engine.wait(cleared);
    engine.clear_error(read);
    graph.launch();
    engine.wait(kept);
    CHECK_THROWS_AS(engine.wait_all(), AggregateError);
    CHECK(runs == 3);
  });
}

TEST_CASE("a launch lasts until its asynchronous ops have completed, on any thread") {
  on_every_scheduler([](Engine& engine) {
    const Var a = engine.new_var(), b = engine.new_var();
    std::atomic<int> value = 0;
    std::vector<std::thread> threads;
    Graph graph = engine.capture([&] {
      engine.push_async(
          [&](RunContext&, Completion completion) {
            auto later = std::make_shared<Completion>(std::move(completion));
            threads.emplace_back([&value, later] {
              value = 2 * value + 1;
              later->done();
            });
          },
          {.mutate = {a}});
      engine.push([&] { ++value; }, {.read = {a}, .mutate = {b}});
    });
    for (int i = 0; i < 5; ++i) graph.launch();
    engine.wait_all();
    CHECK(value == 62);
    for (std::thread& thread : threads) thread.join();
  });
}

TEST_CASE("a dropped Completion fails the op of the graph, in every launch") {
  on_every_scheduler([](Engine& engine) {
    const Var a = engine.new_var();
    Graph graph = engine.capture([&] { engine.push_async([](RunContext&, Completion) {}, {.mutate = {a}}); });
    for (int i = 0; i < 3; ++i) {
      graph.launch();
      CHECK_THROWS_AS(engine.wait(a), DroppedCompletion);
    }
    engine.clear_error(a);
    engine.wait_all();
  });
}

TEST_CASE("independent ops of a graph spread over idle workers") {
  Engine engine({.workers = 4});
  std::latch together(4);
  Graph graph = engine.capture([&] {
    for (int i = 0; i < 4; ++i) engine.push([&] { together.arrive_and_wait(); });
  });
  graph.launch();
  engine.wait_all();
  CHECK(together.try_wait());
}

TEST_CASE("an op of a graph may wait for others, not for its own graph") {
  on_every_scheduler([](Engine& engine) {
    const Var own = engine.new_var(), other = engine.new_var(), after = engine.new_var();
    int value = 0, seen = 0;
    bool refused = false;
    Graph graph = engine.capture([&] {
      engine.push([&] { ++seen; }, {.mutate = {own}});
      engine.push(
          [&] {
            engine.push([&] { ++value; }, {.mutate = {other}});
            engine.wait(other);
            seen += value;
            try {
              engine.wait(own);
            } catch (const WouldDeadlock& error) {
              refused = std::string(error.what()).starts_with("op 'waits' waits");
            }
          },
          {.read = {own}, .mutate = {after}, .name = "waits"});
      engine.push([&] { seen *= 2; }, {.mutate = {own, after}});
    });
    for (int i = 0; i < 3; ++i) graph.launch();
    engine.wait(after);
    CHECK(refused);
    CHECK(seen == ((((0 + 2) * 2) + 1 + 2) * 2 + 1 + 3) * 2);
    engine.wait_all();
  });
}

TEST_CASE(
    "an op of a graph whose launch waits for a Completion waits for no var that comes after the launch") {
  on_every_scheduler([](Engine& engine) {
    const Var a = engine.new_var(), b = engine.new_var(), later = engine.new_var();
    int refused = 0, returned = 0;
    std::vector<std::thread> threads;
    const auto wait_for = [&](const Var& var) {
      try {
        engine.wait(var);
        ++returned;
      } catch (const WouldDeadlock&) {
        ++refused;
      }
    };
    const Graph graph = engine.capture([&] {
      engine.push_async(
          [&](RunContext&, Completion completion) {
            threads.emplace_back([done = std::move(completion)]() mutable {
              for (int i = 0; i < 1000; ++i) std::this_thread::yield();
              done.done();
            });
          },
          {.mutate = {a}});
      engine.push([&] { wait_for(b), wait_for(later); }, {.read = {a}, .mutate = {b}});
    });
    for (int i = 1; i <= 5; ++i) {
      graph.launch();
      engine.push([] {}, {.read = {b}, .mutate = {later}});
      engine.wait(later);
      CHECK(refused + returned == 2 * i);
      // In each launch the wait for b is refused, since the graph mutates b. The wait for `later` may return,
      // if the op that mutates `later` is not pushed yet.
      CHECK(refused >= i);
    }
    engine.wait_all();
    for (std::thread& thread : threads) thread.join();
  });
}

TEST_CASE("what may not be done in a capture throws, and a capture that throws leaves nothing") {
  on_every_scheduler([](Engine& engine) {
    Engine another({.workers = 1});
    const Var a = engine.new_var(), foreign = another.new_var();
    Graph empty = engine.capture([] {});
    auto held = std::make_shared<int>(0);
    CHECK_THROWS_WITH(engine.capture([&] {
      CHECK_THROWS_AS(engine.wait(a), Error);
      CHECK_THROWS_AS(engine.wait_all(), Error);
      CHECK_THROWS_AS(another.wait_all(), Error);
      CHECK_THROWS_AS(another.push([] {}), Error);
      CHECK_THROWS_AS(engine.push([] {}, {.mutate = {foreign}}), InvalidArgument);
      CHECK_THROWS_AS(engine.push([] {}, {.mutate = {Var()}}), InvalidArgument);
      CHECK_THROWS_AS(engine.capture([] {}), Error);
      CHECK_THROWS_AS(empty.launch(), Error);
      engine.push([held] { ++*held; }, {.mutate = {a}});
      throw std::runtime_error("enough");
    }),
                      "enough");
    CHECK(held.use_count() == 1);
    engine.push([] {}, {.mutate = {a}});
    empty.launch();
    engine.wait_all();
    CHECK(*held == 0);
  });
}

TEST_CASE("a capture does not wait for room: nothing that is pushed in it is in flight") {
  Engine engine({.scheduler = Scheduler::threaded, .workers = 1, .max_ops = 1, .max_bytes = 10});
  std::atomic<bool> go = false;
  int ran = 0;
  const Var x = engine.new_var();
  engine.push(
      [&] {
        while (!go) std::this_thread::yield();
      },
      {.bytes = 10});
  const Graph graph = engine.capture([&] {
    for (int i = 0; i < 3; ++i) engine.push([&] { ++ran; }, {.mutate = {x}, .bytes = 10});
  });
  go = true;
  graph.launch();
  engine.push([&] { ++ran; }, {.mutate = {x}, .bytes = 10});
  engine.wait_all();
  CHECK(ran == 4);
}

TEST_CASE("groups of captured ops do not count: a launch is all or nothing") {
  on_every_scheduler([](Engine& engine) {
    Group group;
    int ran = 0;
    bool told = true;
    const Var x = engine.new_var();
    const Graph graph = engine.capture([&] {
      engine.push(
          [&](RunContext& context) {
            ++ran;
            told = context.cancelled();
          },
          {.mutate = {x}, .group = group});
    });
    group.cancel();
    graph.launch();
    engine.wait(x);
    CHECK(ran == 1);
    CHECK_FALSE(told);
  });
}

TEST_CASE("wrong graphs and slots are errors") {
  auto engine = std::make_unique<Engine>(EngineOptions{.workers = 1});
  Slot<int> mine, theirs;
  int sum = 0;
  Graph graph = engine->capture([&] {
    mine = engine->slot<int>();
    const Var temporary = engine->new_var();
    engine->push([&sum, slot = mine] { sum += *slot; }, {.mutate = {temporary}});
  });
  Graph other = engine->capture([&] { theirs = engine->slot<int>(); });
  CHECK_THROWS_AS(engine->slot<int>(), Error);
  CHECK_THROWS_AS(graph.launch(), InvalidArgument);
  CHECK_THROWS_AS(graph.launch(theirs.bind(1)), InvalidArgument);
  CHECK_THROWS_WITH_AS(graph.launch(mine.bind(1), mine.bind(2)),
                       "graph 'graph': slot 0 is bound twice in one launch; bind it once", InvalidArgument);
  CHECK_THROWS_AS(graph.set(Slot<int>(), 1), InvalidArgument);
  CHECK_THROWS_AS(Graph().launch(), InvalidArgument);
  graph.launch(mine.bind(1));
  Graph moved = std::move(graph);
  CHECK_THROWS_AS(graph.launch(mine.bind(1)), InvalidArgument);
  CHECK_THROWS_AS(graph.size(), InvalidArgument);
  moved.launch(mine.bind(2));
  engine.reset();
  CHECK(sum == 3);
  CHECK_THROWS_AS(moved.launch(mine.bind(1)), Error);
}

TEST_CASE("a function is called at each launch, once for each key, before the ops are queued") {
  Engine engine({.workers = 1});
  std::vector<int> calls;
  const Var var = engine.new_var();
  const Graph graph = engine.capture([&] {
    for (int key : {1, 2, 1})
      at_each_launch(reinterpret_cast<void*>(std::intptr_t{key}), [&calls, key] { calls.push_back(key); });
    engine.push([] {}, {.mutate = {var}});
    CHECK_THROWS_AS(at_each_launch(&calls, {}), InvalidArgument);
  });
  CHECK(calls.empty());
  graph.launch();
  CHECK(calls == std::vector{1, 2});
  graph.launch();
  CHECK(calls == std::vector{1, 2, 1, 2});
  CHECK_THROWS_AS(at_each_launch(&calls, [] {}), Error);
}

TEST_CASE("a launch outlives the last handle on its graph, closures die with it") {
  on_every_scheduler([](Engine& engine) {
    auto held = std::make_shared<std::atomic<int>>(0);
    {
      Graph graph = engine.capture([&] {
        const Var var = engine.new_var();
        for (int i = 0; i < 10; ++i) engine.push([held] { ++*held; }, {.mutate = {var}});
      });
      for (int i = 0; i < 10; ++i) graph.launch();
    }
    engine.wait_all();
    CHECK(*held == 100);
    CHECK(held.use_count() == 1);
  });
}

TEST_CASE("threads that launch one graph at once never overlap in it") {
  on_every_scheduler([](Engine& engine) {
    int inside = 0, sum = 0;
    Graph graph = engine.capture([&] {
      const Var var = engine.new_var();
      engine.push([&] { ++inside; }, {.mutate = {var}});
      engine.push([&] { sum += inside--; }, {.mutate = {var}});
    });
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 250; ++i) graph.launch();
      });
    }
    for (std::thread& thread : threads) thread.join();
    engine.wait_all();
    CHECK(sum == 1000);
    CHECK(inside == 0);
  });
}

TEST_CASE("graph: a launch_slot has its first value once, and then what each launch computes") {
  for (const Scheduler scheduler : {Scheduler::naive, Scheduler::threaded, Scheduler::fuzz}) {
    Engine engine({.scheduler = scheduler, .workers = 2});
    const Var var = engine.new_var();
    std::vector<int> seen;
    std::string order;
    Slot<int> first, second;
    const auto capture = [&] {
      return engine.capture([&] {
        first = launch_slot<int>(10, [&, next = 20]() mutable { return order += 'a', next++; });
        second = launch_slot<int>(1, [&] { return order += 'b', static_cast<int>(order.size()); });
        engine.push(
            [&seen, first, second] {
              seen.insert(seen.end(), {*first, *second});
            },
            {.mutate = {var}});
      });
    };
    Graph graph = capture();
    graph.launch(), graph.launch(), graph.launch(second.bind(7));
    engine.wait(var);
    CHECK(seen == std::vector<int>{10, 1, 20, 2, 21, 7});
    CHECK(order == "aba");
    graph.set(second, 5);
    graph.launch();
    engine.wait(var);
    CHECK(seen.back() == 5);
    CHECK(order == "abaa");
    CHECK_THROWS_AS((void)launch_slot<int>(1, [] { return 2; }), Error);
  }
}
