// Graphs with ops on streams: what a launch issues and when, what it waits for, how its ops fail.
#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/graph.h>
#include <heddle/host_stream.h>
#include <heddle/launch_memory.h>
#include <heddle/stream_ops.h>

#include "schedulers.h"
#include "stepped.h"

namespace heddle::test {
namespace {

TEST_CASE(
    "a graph of ops on streams and on the CPU computes what pushing its ops computes, with each launch's "
    "slots") {
  on_every_engine([](Engine& engine, Stream& a, Stream& b) {
    const Var x = engine.new_var(), y = engine.new_var(), z = engine.new_var();
    std::uint64_t in_x = 1, in_y = 2, in_z = 3;
    Slot<std::uint64_t> rate;
    const Graph graph = engine.capture([&] {
      rate = engine.slot<std::uint64_t>();
      engine.push_on(a,
                     [&, rate](Stream& stream) { stream.enqueue([&, by = *rate] { in_x = in_x * 3 + by; }); },
                     {.read = {x}, .mutate = {x}});
      engine.push_on(b, [&](Stream& stream) { stream.copy(&in_y, &in_x, sizeof in_x); },
                     {.read = {x}, .mutate = {y}});
      engine.push([&, rate] { in_z = in_z * 5 + in_y + *rate; }, {.read = {y, z}, .mutate = {z}});
      engine.push_on(a, work([&] { in_x += in_z; }), {.read = {x, z}, .mutate = {x}});
      engine.push([&] { in_z += 7; }, {.read = {z}, .mutate = {z}});
    });
    CHECK(graph.size() == 5);
    std::uint64_t at_x = 1, at_y = 2, at_z = 3;
    for (std::uint64_t by = 0; by < 8; ++by) {
      graph.launch(rate.bind(by));
      at_x = at_x * 3 + by, at_y = at_x, at_z = at_z * 5 + at_y + by, at_x += at_z, at_z += 7;
      if (by % 3 == 1) {
        engine.push_on(b, work([&] { in_z ^= in_x; }), {.read = {x, z}, .mutate = {z}});
        at_z ^= at_x;
      }
    }
    engine.wait_all();
    CHECK(in_x == at_x);
    CHECK(in_y == at_y);
    CHECK(in_z == at_z);
  });
}

TEST_CASE("a launch releases its vars when its ops are issued, and ends when their work is done") {
  Stepped s;
  const Var x = s.engine.new_var(), y = s.engine.new_var();
  std::atomic<int> issued = 0, done = 0, after = 0;
  const Graph graph = s.engine.capture([&] {
    for (int i = 0; i < 3; ++i) {
      s.engine.push_on(i == 1 ? s.b : s.a,
                       [&](Stream& stream) {
                         ++issued;
                         stream.enqueue([&] { ++done; });
                       },
                       {.read = {x}, .mutate = {x}});
    }
  });
  graph.launch();
  graph.launch();
  s.engine.push_on(s.b, [&](Stream&) { ++issued; }, {.read = {x}, .mutate = {y}});
  s.engine.push([&] { after = done.load(); }, {.read = {x}});
  s.let_be();
  CHECK(issued == 7);  // all of both launches, and the op after them
  CHECK(done == 0);
  CHECK(after == 0);
  std::atomic<bool> ended = false;
  std::thread waits([&] {
    s.engine.wait_all();
    ended = true;
  });
  for (int i = 0; i < 5; ++i) {
    until([&] { return s.a.step() || s.b.step() || done == 6; });
    if (done < 6) CHECK(!ended);
  }
  while (!ended) s.a.step(), s.b.step();
  waits.join();
  CHECK(done == 6);
  CHECK(after == 6);
}

TEST_CASE("an op of a graph on the CPU waits for the work before it, and holds up no other op") {
  Stepped s;
  const Var x = s.engine.new_var(), y = s.engine.new_var(), z = s.engine.new_var();
  std::atomic<int> order = 0, saw = -1, other = -1, behind = -1;
  const Graph graph = s.engine.capture([&] {
    s.engine.push_on(s.a, work([&] { ++order; }), {.mutate = {x}});
    s.engine.push([&] { saw = order.load(); }, {.read = {x}, .mutate = {y}});
    s.engine.push_on(s.b, work([&] { behind = saw.load(); }), {.read = {y}});
    s.engine.push([&] { other = order.load(); }, {.mutate = {z}});
  });
  graph.launch();  // the first launch runs its ops on all workers
  until([&] { return other == 0; });
  s.let_be();
  CHECK(saw == -1);
  run_dry(s.b);
  CHECK(behind == -1);
  run_dry(s.a);
  until([&] { return saw == 1; });
  s.finish();
  CHECK(behind == 1);
}

TEST_CASE("errors of a graph's ops on streams poison what reads them, as without a graph") {
  on_every_engine([](Engine& engine, Stream& a, Stream& b) {
    for (const bool late : {false, true}) {
      const Var x = engine.new_var(), y = engine.new_var(), z = engine.new_var();
      std::atomic<int> ran = 0;
      std::atomic<bool> fails = true;
      const Graph graph = engine.capture([&] {
        engine.push_on(a,
                       [&, late](Stream& stream) {
                         if (fails && !late) throw std::runtime_error("no");
                         stream.enqueue([&, fail = fails.load()] {
                           if (fail) throw std::runtime_error("no");
                         });
                       },
                       {.mutate = {x}, .name = "fails"});
        engine.push_on(b, work([&] { ++ran; }), {.read = {x}, .mutate = {y}, .name = "reads"});
        engine.push([&] { ++ran; }, {.read = {y}, .mutate = {z}, .name = "reads on the CPU"});
        engine.push_on(b, work([] {}), {.mutate = {y}, .name = "overwrites"});
      });
      graph.launch();
      CHECK_THROWS_WITH(engine.wait(x), "no");
      CHECK_THROWS_WITH(engine.wait(z), "no");
      CHECK_NOTHROW(engine.wait(y));
      const ErrorReport report = engine.error_of(z);
      CHECK(report.op == "fails");
      REQUIRE(report.path.size() == 2);
      CHECK(report.path[0].starts_with("reads "));
      CHECK(report.path[1].starts_with("reads on the CPU "));
      // Work that was issued runs, although its op fails.
      const int before = ran;
      fails = false;
      graph.launch();
      CHECK_NOTHROW(engine.wait(z));
      CHECK_NOTHROW(engine.wait(x));
      CHECK(ran == before + 2);
      // What was poisoned before a launch is not issued in it, unless the launch overwrites it.
      engine.push([] { throw std::runtime_error("before"); }, {.mutate = {x}});
      graph.launch();
      CHECK_NOTHROW(engine.wait(z));
      CHECK_THROWS_AS(engine.wait_all(), AggregateError);
    }
  });
}

// Counts calls of an op's function, of skipped() and of outcome().
struct Told {
  std::atomic<int>*issued, *skips, *outcomes;
  void operator()(Stream& stream) const {
    ++*issued;
    stream.enqueue([] {});
  }
  void skipped(const std::exception_ptr&) const noexcept { ++*skips; }
  std::exception_ptr outcome(const std::exception_ptr& failure) const noexcept {
    ++*outcomes;
    return failure;
  }
};

TEST_CASE("a function object of a graph's op on a stream is told in each launch how it went") {
  on_every_engine([](Engine& engine, Stream& a, Stream&) {
    const Var x = engine.new_var(), y = engine.new_var();
    std::atomic<int> issued = 0, skips = 0, outcomes = 0;
    const Graph graph = engine.capture([&] {
      engine.push_on(a, Told{&issued, &skips, &outcomes}, {.read = {x}, .mutate = {y}});
    });
    graph.launch();
    graph.launch();
    engine.wait_all();
    engine.push([] { throw std::runtime_error("no"); }, {.mutate = {x}});
    graph.launch();
    CHECK_THROWS_WITH(engine.wait(y), "no");
    CHECK(issued == 2);
    CHECK(outcomes == 2);
    CHECK(skips == 1);
    engine.clear_error(x);
    engine.clear_error(y);
  });
}

TEST_CASE("a graph may end before its launches, whose work keeps what the ops hold") {
  Stepped s;
  const Var x = s.engine.new_var();
  auto held = std::make_shared<int>(0);
  const std::weak_ptr<int> alive = held;
  Graph graph = s.engine.capture([&] {
    s.engine.push_on(s.a, [held](Stream& stream) { stream.enqueue([at = held.get()] { ++*at; }); },
                     {.read = {x}, .mutate = {x}});
  });
  held.reset();
  for (int i = 0; i < 3; ++i) graph.launch();
  graph = Graph();
  s.let_be();
  REQUIRE(alive.lock());
  CHECK(*alive.lock() == 0);
  s.finish();
  CHECK(!alive.lock());
}

TEST_CASE("an engine that ends waits for the work of launches") {
  on_every_scheduler([](Engine& engine) {
    (void)engine;
    std::atomic<int> done = 0;
    {
      Engine own(engine.options());
      Stream& a = own.make_stream(cpu());
      const Var x = own.new_var();
      const Graph graph = own.capture([&] {
        for (int i = 0; i < 4; ++i) own.push_on(a, work([&] { ++done; }), {.read = {x}, .mutate = {x}});
      });
      for (int i = 0; i < 5; ++i) graph.launch();
    }
    CHECK(done == 20);
  });
}

TEST_CASE("a wait in the function of a graph's op on a stream throws WouldDeadlock, a push does not") {
  on_every_engine([](Engine& engine, Stream& a, Stream& b) {
    const Var x = engine.new_var(), y = engine.new_var();
    std::atomic<int> refused = 0, pushed = 0;
    const Graph graph = engine.capture([&] {
      engine.push_on(a,
                     [&](Stream&) {
                       engine.push_on(b, work([&] { ++pushed; }), {.mutate = {y}});
                       try {
                         engine.wait(y);
                       } catch (const WouldDeadlock&) {
                         ++refused;
                       }
                     },
                     {.mutate = {x}});
    });
    for (int i = 0; i < 3; ++i) graph.launch();
    engine.wait_all();
    CHECK(refused == 3);
    CHECK(pushed == 3);
  });
}

TEST_CASE("graphs are launched from several threads, between ops on the same streams") {
  on_every_engine([](Engine& engine, Stream& a, Stream& b) {
    constexpr int kThreads = 3, kLaunches = 8;
    const Var x = engine.new_var(), y = engine.new_var();
    long in_x = 0, in_y = 0;
    const Graph graph = engine.capture([&] {
      engine.push_on(a, work([&] { ++in_x; }), {.read = {x}, .mutate = {x}});
      engine.push([&] { in_y += 2; }, {.read = {y}, .mutate = {y}});
      engine.push_on(b, work([&] { in_x += 1, in_y += 1; }), {.read = {x, y}, .mutate = {x, y}});
      engine.push_on(a, work([&] { ++in_y; }), {.read = {y}, .mutate = {y}});
    });
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        const Var own = engine.new_var();
        for (int i = 0; i < kLaunches; ++i) {
          graph.launch();
          engine.push_on(t % 2 ? a : b, work([&] { in_x += 3; }), {.read = {x}, .mutate = {x}});
          engine.push_on(t % 2 ? b : a, [](Stream&) {}, {.mutate = {own}});
          if (i == 4) engine.wait(own);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    engine.wait_all();
    CHECK(in_x == kThreads * kLaunches * 5);
    CHECK(in_y == kThreads * kLaunches * 4);
  });
}

struct Kept : LaunchMemory {
  std::atomic<int> ends = 0;
  void end_use() noexcept override { ++ends; }
};

TEST_CASE("memory that a graph's ops on streams use is kept between launches, other memory is not") {
  on_every_engine([](Engine& engine, Stream& a, Stream&) {
    const Var x = engine.new_var(), y = engine.new_var();
    const auto used = std::make_shared<Kept>(), unused = std::make_shared<Kept>();
    const Graph graph = engine.capture([&] {
      launch_use(x).memory = used, launch_use(y).memory = unused;
      engine.push([] {}, {.mutate = {x}});
      engine.push_on(a, [](Stream&) {}, {.read = {x}});
      engine.push([] {}, {.mutate = {y}});
    });
    for (int i = 0; i < 3; ++i) graph.launch();
    engine.wait_all();
    CHECK(used->ends == 0);
    CHECK(unused->ends == 3);
  });
}

TEST_CASE("a graph's op that was issued and is not done is among the pending ones") {
  Stepped s(EngineOptions{.scheduler = Scheduler::threaded, .workers = 2, .watchdog = 1000});
  const Var x = s.engine.new_var(), y = s.engine.new_var();
  const Graph graph = s.engine.capture([&] {
    s.engine.push_on(s.a, [](Stream& stream) { stream.enqueue([] {}); }, {.mutate = {x}, .name = "in work"});
    s.engine.push([] {}, {.read = {x}, .mutate = {y}, .name = "kept back"});
  });
  graph.launch();
  s.let_be();
  const std::string text = s.engine.describe_pending();
  CAPTURE(text);
  CHECK(text.find("'in work'") != std::string::npos);
  CHECK(text.find("was issued on stream 0") != std::string::npos);
  CHECK(text.find("'kept back'") != std::string::npos);
  s.finish();
  CHECK(s.engine.describe_pending().find("in work") == std::string::npos);
}

}  // namespace
}  // namespace heddle::test
