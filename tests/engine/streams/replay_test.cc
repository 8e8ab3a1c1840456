// Graphs whose ops' work is recorded: when functions are called, what is left out, and that failures stay with their ops.
#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/check.h>
#include <heddle/graph.h>
#include <heddle/host_stream.h>
#include <heddle/log.h>
#include <heddle/stream_ops.h>

#include "arguments.h"
#include "schedulers.h"
#include "stepped.h"

namespace heddle::test {
namespace {

// An op's function whose work may be recorded as long as *state is the same.
struct Recorded {
  std::function<void(Stream&)> fn;
  std::shared_ptr<std::atomic<int>> calls = std::make_shared<std::atomic<int>>(0);
  std::shared_ptr<const void*> state = std::make_shared<const void*>(nullptr);
  bool may = true;

  void operator()(Stream& stream) {
    ++*calls;
    fn(stream);
  }
  bool replays(std::vector<const void*>& depends_on) const {
    depends_on.push_back(*state);
    return may;
  }
};

// Whether functions were called as often as expected. The access checker looks at them: with it each launch calls them.
bool called(bool as_expected) { return check::enabled() || as_expected; }

template <class F> Recorded recorded_work(F fn) {
  return {[fn](Stream& stream) { stream.enqueue(fn); }};
}

std::string message(Engine& engine, const Var& var) {
  try {
    engine.wait(var);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("functions are called in the first launch and to record their work, and then no more") {
  on_every_engine([](Engine& engine, Stream& a, Stream&) {
    const Var x = engine.new_var(), y = engine.new_var();
    std::uint64_t in_x = 1, in_y = 0, expected = 1, sum = 0;
    std::vector<Recorded> ops;
    for (std::uint64_t i = 0; i < 6; ++i) ops.push_back(recorded_work([&in_x, i] { in_x = in_x * 3 + i; }));
    const Graph graph = engine.capture([&] {
      for (const Recorded& op : ops) engine.push_on(a, op, {.read = {x}, .mutate = {x}});
      engine.push([&] { in_y += in_x; }, {.read = {x, y}, .mutate = {y}});
    });
    CHECK(graph.size() == 7);
    for (int launch = 0; launch < 6; ++launch) {
      graph.launch();
      for (std::uint64_t i = 0; i < 6; ++i) expected = expected * 3 + i;
      sum += expected;
    }
    engine.wait_all();
    CHECK(in_x == expected);
    CHECK(in_y == sum);
    for (const Recorded& op : ops) CHECK(called(*op.calls == 2));
  });
}

TEST_CASE("work that changes is recorded again, and left out if it changes often") {
  on_every_engine([](Engine& engine, Stream& a, Stream&) {
    const Var x = engine.new_var();
    std::array<std::uint64_t, 8> places{};
    std::size_t place = 0;
    std::uint64_t in_x = 0;
    const Recorded first = recorded_work([&] { ++in_x; }), last = recorded_work([&] { ++in_x; });
    Recorded moves{[&](Stream& stream) { stream.copy(&places[place], &in_x, sizeof in_x); }};
    const Graph graph = engine.capture([&] {
      engine.push_on(a, first, {.read = {x}, .mutate = {x}});
      engine.push_on(a, moves, {.read = {x}, .mutate = {x}});
      engine.push_on(a, last, {.read = {x}, .mutate = {x}});
    });
    const auto launch = [&](std::size_t to) {
      place = to;
      *moves.state = &places[to];
      graph.launch();
      engine.wait_all();
    };
    for (int i = 0; i < 4; ++i) launch(0);
    CHECK(called(*moves.calls == 2));
    CHECK(places[0] == 7);
    launch(1);
    CHECK(called(*moves.calls == 3));
    for (int i = 0; i < 3; ++i) launch(1);
    CHECK(called(*moves.calls == 3));
    CHECK(places[1] == 15);
    for (std::size_t i = 2; i < 8; ++i) launch(i);
    for (std::size_t i = 2; i < 8; ++i) CHECK(places[i] == 13 + 2 * i);
    CHECK(called(*moves.calls == 9));
    CHECK(called(*first.calls == 9));  // since no op follows it that can be recorded with it
  });
}

TEST_CASE("an op whose work cannot be recorded is left out, and the others are recorded without it") {
  on_every_engine([](Engine& engine, Stream& a, Stream&) {
    const Var x = engine.new_var();
    std::vector<int> order;
    std::vector<Recorded> ops;
    for (int i = 0; i < 5; ++i) ops.push_back(recorded_work([&order, i] { order.push_back(i); }));
    ops[2].fn = [&](Stream& stream) { stream.check_when_done([&] { order.push_back(2); }); };
    const Graph graph = engine.capture([&] {
      for (const Recorded& op : ops) engine.push_on(a, op, {.read = {x}, .mutate = {x}});
    });
    for (int launch = 0; launch < 8; ++launch) graph.launch();
    engine.wait_all();
    std::vector<int> expected;
    for (int launch = 0; launch < 8; ++launch) expected.insert(expected.end(), {0, 1, 2, 3, 4});
    CHECK(order == expected);
    CHECK(called(*ops[0].calls < 6));
    CHECK(called(*ops[2].calls == 9));
    CHECK(called(*ops[4].calls < 6));
  });
}

TEST_CASE("an op that throws while its work is recorded fails nothing, and the log says so once") {
  if (check::enabled()) return;  // nothing is recorded then
  std::vector<std::string> lines;
  set_log([&](std::string_view line) { lines.emplace_back(line); });
  {
    Stepped s;
    const Var x = s.engine.new_var();
    int in_x = 0;
    std::vector<Recorded> ops;
    for (int i = 0; i < 4; ++i) ops.push_back(recorded_work([&] { ++in_x; }));
    ops[1].fn = [&, &a = s.a](Stream& stream) {
      if (&stream != &a) throw std::runtime_error("not here");
      stream.enqueue([&] { ++in_x; });
    };
    const Graph graph = s.engine.capture(
        [&] {
          for (const Recorded& op : ops)
            s.engine.push_on(s.a, op, {.read = {x}, .mutate = {x}, .name = "shy"});
        },
        "with a shy op");
    for (int launch = 0; launch < 5; ++launch) graph.launch();
    s.finish();
    CHECK(message(s.engine, x) == "");
    CHECK(in_x == 20);
  }
  set_log(nullptr);
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].find("graph 'with a shy op': work of 'shy' cannot be recorded") != std::string::npos);
  CHECK(lines[0].find("not here") != std::string::npos);
}

TEST_CASE("a failure that comes to be known late stays with the ops that read it") {
  Stepped s;
  const Var in = s.engine.new_var(), x = s.engine.new_var(), y = s.engine.new_var(), z = s.engine.new_var();
  std::vector<Recorded> ops;
  for (int i = 0; i < 3; ++i) ops.push_back(recorded_work([] {}));
  const Graph graph = s.engine.capture([&] {
    s.engine.push_on(s.a, ops[0], {.read = {in}, .mutate = {x}});
    s.engine.push_on(s.a, ops[1], {.mutate = {y}});
    s.engine.push_on(s.a, ops[2], {.read = {x, y}, .mutate = {z}});
  });
  for (int i = 0; i < 3; ++i) graph.launch();
  s.finish();
  s.engine.push_on(s.b, work([] { throw std::runtime_error("late"); }), {.mutate = {in}, .name = "bad"});
  graph.launch();
  s.let_be();
  CHECK(called(*ops[0].calls == 2));  // issued while the failure was not known
  s.finish();
  CHECK(message(s.engine, x).find("late") == 0);
  CHECK(message(s.engine, y) == "");
  CHECK(message(s.engine, z).find("late") == 0);
  // Now it is known: the ops are issued one by one, and two of them are skipped.
  graph.launch();
  s.finish();
  CHECK(called(*ops[0].calls == 2));
  CHECK(called(*ops[1].calls == 3));
  CHECK(message(s.engine, y) == "");
  CHECK(message(s.engine, z).find("late") == 0);
  s.engine.push([] {}, {.mutate = {in}});
  graph.launch();
  s.finish();
  CHECK(message(s.engine, z) == "");
  CHECK(called(*ops[1].calls == 3));
  CHECK_NOTHROW(s.engine.wait_all());
}

// A random program of ops over some vars, which is captured or called, and what is pushed between its launches.
struct Program {
  static constexpr std::size_t kVars = 6;
  struct Op {
    std::size_t kind, stream, to, from, other;
    bool overwrites;
  };
  static Op op(std::mt19937_64& random, std::size_t kinds) {
    const auto below = [&](std::uint64_t n) { return static_cast<std::size_t>(random() % n); };
    return {below(kinds), below(5) == 0 ? 1u : 0u, below(kVars), below(kVars), below(kVars), below(3) == 0};
  }
  explicit Program(std::uint64_t seed) : random(seed) {
    for (auto n = 4 + random() % 16; n > 0; --n) body.push_back(op(random, 8));
  }
  std::mt19937_64 random;
  std::vector<Op> body{};
};

struct Vars {
  explicit Vars(Engine& engine) {
    for (std::size_t i = 0; i < Program::kVars; ++i) all.push_back(engine.new_var());
  }
  std::vector<Var> all{};
  std::array<std::uint64_t, Program::kVars> values{};
};

// kinds: 0 to 5 on a stream, recordable unless 5; 6, 7 on the CPU; 8 fails when it is called, 9 when its work runs.
void push(Engine& engine, const std::array<Stream*, 2>& streams, Vars& vars, const Program::Op& op,
          std::atomic<int>& calls) {
  const auto compute = [&values = vars.values, op] {
    values[op.to] =
        (op.overwrites ? 1 : values[op.to] * 5) + values[op.from] * 3 + values[op.other] + op.kind;
  };
  Access access{.read = {vars.all[op.from], vars.all[op.other]}, .mutate = {vars.all[op.to]}};
  if (!op.overwrites) access.read.add(vars.all[op.to]);
  Stream& stream = *streams[op.stream];
  if (op.kind < 5)
    return engine.push_on(stream, Recorded{[compute, &calls](Stream& to) {
                            ++calls;
                            to.enqueue(compute);
                          }},
                          access);
  if (op.kind == 5) return engine.push_on(stream, work(compute), access);
  if (op.kind < 8) return engine.push(compute, access);
  const Access overwrites{.mutate = {vars.all[op.to]}};
  if (op.kind == 8) return engine.push([] { throw std::runtime_error("called"); }, overwrites);
  engine.push_on(stream, work([] { throw std::runtime_error("worked"); }), overwrites);
}

struct Outcome {
  std::vector<std::string> errors;
  std::vector<std::uint64_t> values;
  bool operator==(const Outcome&) const = default;
};

Outcome run(Engine& engine, const std::array<Stream*, 2>& streams, std::uint64_t seed, bool captured,
            std::atomic<int>& calls) {
  Program program(seed);
  Vars vars(engine);
  const auto body = [&] {
    for (const Program::Op& op : program.body) push(engine, streams, vars, op, calls);
  };
  Graph graph;
  if (captured) graph = engine.capture(body);
  for (int launch = 0; launch < 8; ++launch) {
    captured ? graph.launch() : body();
    for (auto n = program.random() % 3; n > 0; --n)
      push(engine, streams, vars, Program::op(program.random, launch > 2 ? 10 : 8), calls);
    if (launch == 5) {
      for (std::size_t i = 0; i < 4; ++i)
        engine.push([&values = vars.values, i] { values[i] = i; }, {.mutate = {vars.all[i]}});
    }
  }
  graph = Graph();
  Outcome result;
  for (const Var& var : vars.all) result.errors.push_back(message(engine, var));
  for (std::size_t i = 0; i < Program::kVars; ++i)
    result.values.push_back(result.errors[i].empty() ? vars.values[i] : 0);
  try {
    engine.wait_all();
  } catch (const AggregateError&) {
  }
  return result;
}

TEST_CASE("random graphs leave the values and errors of pushing their ops") {
  std::atomic<int> in_graphs = 0, in_pushes = 0;
  for (std::uint64_t seed = 0; seed < (kSanitized ? 3 : 12); ++seed) {
    CAPTURE(seed);
    Outcome expected;
    {
      Engine engine({.scheduler = Scheduler::naive});
      const std::array<Stream*, 2> streams{&engine.stream(cpu(0)), &engine.stream(cpu(1))};
      expected = run(engine, streams, seed, false, in_pushes);
    }
    on_every_engine([&](Engine& engine, Stream& a, Stream& b) {
      CHECK((run(engine, {&a, &b}, seed, true, in_graphs) == expected));
    });
  }
  CHECK(in_graphs > 0);
}

TEST_CASE("graphs with recorded work are launched by two threads, and end while they run") {
  on_every_engine([](Engine& engine, Stream& a, Stream&) {
    const Var x = engine.new_var();
    int in_x = 0;
    {
      const Graph graph = engine.capture([&] {
        for (int i = 0; i < 4; ++i)
          engine.push_on(a, recorded_work([&] { ++in_x; }), {.read = {x}, .mutate = {x}});
      });
      std::vector<std::thread> threads;
      for (int t = 0; t < 2; ++t)
        threads.emplace_back([&] {
          for (int i = 0; i < 10; ++i) graph.launch();
        });
      for (std::thread& thread : threads) thread.join();
    }
    engine.wait_all();
    CHECK(in_x == 80);
  });
}

}  // namespace
}  // namespace heddle::test
