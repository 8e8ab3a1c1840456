// What the options of a push do for ops on streams: groups, bounds, waits, the access checker.
#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/check.h>
#include <heddle/graph.h>
#include <heddle/host_stream.h>
#include <heddle/stream_ops.h>

#include "arguments.h"
#include "schedulers.h"
#include "stepped.h"

namespace heddle::test {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRaces = kSanitized ? 4000 : 20'000;
// Time limit of the tests with races, for machines where each race costs a time slice.
constexpr std::chrono::seconds kMostOfRaces(10);

TEST_CASE("an op on a stream whose group is cancelled or overdue is not issued, and fails with Cancelled") {
  on_every_engine([](Engine& engine, Stream& a, Stream& b) {
    Group group, late;
    const Var x = engine.new_var(), y = engine.new_var(), z = engine.new_var();
    std::atomic<int> issued = 0;
    const auto count = [&](Stream&) { ++issued; };
    group.cancel();
    late.set_deadline(Clock::time_point::min());
    engine.push_on(a, count, {.mutate = {x}, .group = group});
    engine.push_on(b, count, {.read = {x}, .mutate = {y}});
    engine.push_on(b, count, {.mutate = {z}, .group = late});
    CHECK_THROWS_AS(engine.wait(x), Cancelled);
    CHECK_THROWS_AS(engine.wait(y), Cancelled);
    CHECK_THROWS_AS(engine.wait(z), Cancelled);
    CHECK(issued == 0);
    late.set_deadline(Clock::time_point::max());
    engine.push_on(b, count, {.mutate = {z}, .group = late});
    engine.push_on(a, count, {.mutate = {x}});
    engine.wait(z);
    engine.wait(x);
    CHECK(issued == 2);
    CHECK_THROWS_AS(engine.wait_all(), AggregateError);  // the error of y, which nothing has waited for
  });
}

TEST_CASE("a cancelled op on a stream still stands between the ops before and after it") {
  Stepped s;
  Group group;
  const Var x = s.engine.new_var(), out = s.engine.new_var();
  std::atomic<int> value = 1;
  int seen = 0;
  group.cancel();
  s.engine.push_on(s.a, work([&] { seen = value; }), {.read = {x}, .mutate = {out}});
  s.engine.push_on(s.b, work([&] { value = 2; }), {.mutate = {x}, .group = group});
  s.engine.push([&] { value = 3; }, {.mutate = {x}});
  s.let_be();
  CHECK(value == 1);
  s.finish();
  CHECK(seen == 1);
  CHECK(value == 3);
}

TEST_CASE("what was issued is not given up, what was kept back for its fences is") {
  Stepped s;
  HostStream& alone = s.add({.alone = true});
  Group group;
  const Var x = s.engine.new_var(), y = s.engine.new_var(), z = s.engine.new_var();
  std::atomic<int> ran = 0, issued = 0;
  s.engine.push_on(s.a,
                   [&](Stream& stream) {
                     ++issued;
                     stream.enqueue([&] { ran += 1; });
                   },
                   {.mutate = {x}, .group = group});
  s.engine.push_on(alone, work([&] { ran += 10; }), {.read = {x}, .mutate = {y}, .group = group});
  s.engine.push([&] { ran += 100; }, {.read = {x}, .mutate = {z}, .group = group});
  until([&] { return issued == 1; });
  s.let_be();
  group.cancel();
  s.finish();
  CHECK(ran == 1);
  CHECK_NOTHROW(s.engine.wait(x));
  CHECK_THROWS_AS(s.engine.wait(y), Cancelled);
  CHECK_THROWS_AS(s.engine.wait(z), Cancelled);
}

TEST_CASE("an op that is cancelled while it stands at its stream's gate is not issued") {
  Stepped s;
  Group group;
  const Var y = s.engine.new_var();
  std::atomic<bool> inside = false, go = false, issued = false;
  s.engine.push_on(s.a, [&](Stream&) {
    inside = true;
    until([&] { return go.load(); });
  });
  until([&] { return inside.load(); });
  s.engine.push_on(s.a, [&](Stream&) { issued = true; }, {.mutate = {y}, .group = group});
  s.let_be();  // until the other worker has left the op at the issue gate
  group.cancel();
  go = true;
  s.finish();
  CHECK_FALSE(issued);
  CHECK_THROWS_AS(s.engine.wait(y), Cancelled);
}

TEST_CASE("an op whose deadline moves while it is looked at is issued or fails: it is never just gone") {
  Engine engine({.scheduler = Scheduler::threaded, .workers = 2});
  Stream& stream = engine.stream(cpu());
  Group group;
  std::atomic<bool> stop = false;
  std::thread moves([&] {
    while (!stop) {
      group.set_deadline(Clock::time_point::min());
      group.set_deadline(Clock::time_point::max());
    }
  });
  int gone = 0;
  const auto end = Clock::now() + kMostOfRaces;
  for (int i = 0; i < kRaces && Clock::now() < end; ++i) {
    const Var x = engine.new_var();
    std::atomic<bool> ran = false;
    engine.push_on(stream, work([&] { ran = true; }), {.mutate = {x}, .group = group});
    try {
      engine.wait(x);
      gone += ran ? 0 : 1;
    } catch (const Cancelled&) {
    }
  }
  stop = true;
  moves.join();
  CHECK(gone == 0);
}

TEST_CASE("who waits for a var issues what that needs, and not what others have left at the gate") {
  for (int attempts = 0, tried = 0; tried < 20; ++attempts) {
    REQUIRE(attempts < 100'000);
    Engine engine({.scheduler = Scheduler::threaded, .workers = 2});
    Stream& stream = engine.stream(cpu());
    const Var x = engine.new_var();
    const auto waiting = std::this_thread::get_id();
    bool waits = true;  // not atomic, since only this thread uses it
    std::atomic<bool> left = false, by_waiter = false, foreign = false;
    engine.push_on(stream,
                   [&](Stream&) {
                     if (std::this_thread::get_id() != waiting) return;
                     by_waiter = true;
                     engine.push_on(stream, [&](Stream&) {
                       if (std::this_thread::get_id() == waiting && waits) foreign = true;
                     });
                     engine.push([&] { left = true; });
                     until([&] { return left.load(); });
                   },
                   {.mutate = {x}});
    engine.wait(x);
    waits = false;
    engine.wait_all();  // may run any op on this thread, so `waits` is false
    if (by_waiter) ++tried;
    REQUIRE_FALSE(foreign);
  }
}

// A stream that executes everything at once. It keeps the callbacks that it was given, as a back end may do.
class Immediate final : public Stream {
 public:
  Immediate() : Stream(cpu(), Lane::compute) {}
  void enqueue(std::function<void()> fn) override {
    try {
      fn();
    } catch (...) {
      error_ = std::current_exception();
    }
  }
  void copy(void*, const void*, std::size_t) override {}
  std::unique_ptr<Event> make_event() override { return std::make_unique<Made>(); }
  void record(Event& event) override {
    auto& made = static_cast<Made&>(event);
    made.next_generation();
    made.error = std::exchange(error_, nullptr);
  }
  bool can_wait_for(const Stream&) const override { return true; }
  void wait(Event&, std::uint64_t) override {}
  bool poll(Event&, std::uint64_t, std::exception_ptr&) noexcept override { return true; }
  bool notify(Event& event, std::uint64_t, const Callback& call) override {
    kept_.push_back(call);
    call(std::exchange(static_cast<Made&>(event).error, nullptr));
    return true;
  }

 private:
  struct Made final : Event {
    using Event::next_generation;
    std::exception_ptr error;
  };
  std::exception_ptr error_;
  std::vector<Callback> kept_;
};

TEST_CASE("a failure ends with the vars that it poisons, whoever still holds a callback of the op") {
  on_every_scheduler([](Engine& engine) {
    Stream& stream = engine.adopt_stream(std::make_unique<Immediate>());
    const Var x = engine.new_var();
    engine.push_on(stream, work([] { throw std::runtime_error("seen"); }), {.mutate = {x}});
    CHECK_THROWS_WITH(engine.wait(x), "seen");
    CHECK_THROWS_AS(engine.wait_all(), AggregateError);
    engine.push([] {}, {.mutate = {x}});
    CHECK_NOTHROW(engine.wait_all());
  });
}

TEST_CASE("room is given back when the work is done, not when it is issued") {
  Stepped s({.scheduler = Scheduler::threaded, .workers = 2, .max_ops = 2, .max_bytes = 100});
  std::atomic<int> issued = 0, pushed = 0;
  const auto count = [&](Stream&) { ++issued; };
  s.engine.push_on(s.a, count, {.bytes = 60});
  until([&] { return issued == 1; });
  std::thread pusher([&] {
    s.engine.push_on(s.b, count, {.bytes = 60});
    pushed = 1;
  });
  for (int i = 0; i < 1000; ++i) std::this_thread::yield();
  CHECK(pushed == 0);
  CHECK(issued == 1);
  until([&] {
    s.a.step();
    return pushed == 1;
  });
  until([&] { return issued == 2; });
  pusher.join();
  s.finish();
}

TEST_CASE(
    "with bounds, ops on streams that fail, are skipped, cancelled or cannot be issued give their room "
    "back") {
  for (EngineOptions options : kSchedulers) {
    options.max_ops = 3;
    options.max_bytes = 100;
    Engine engine(options);
    Stream& a = engine.stream(cpu());
    Stream& b = engine.stream(cpu(1));
    const Var x = engine.new_var(), y = engine.new_var();
    Group group;
    group.cancel();
    for (int i = 0; i < 50; ++i) {
      engine.push_on(a, work([] { throw std::runtime_error("late"); }), {.mutate = {x}, .bytes = 40});
      engine.push_on(b, work([] {}), {.read = {x}, .mutate = {y}, .bytes = 40});
      engine.push([] {}, {.read = {y}, .mutate = {y}, .bytes = 40});
      engine.push_on(a, work([] {}), {.mutate = {x}, .group = group, .bytes = 40});
      engine.push_on(b, [](Stream&) { throw std::runtime_error("issuing"); }, {.mutate = {y}, .bytes = 40});
    }
    CHECK_THROWS_WITH(engine.wait(y), "issuing");
    CHECK_THROWS_AS(engine.wait_all(), AggregateError);
  }
}

TEST_CASE("the work of an op may push beyond the bound: room may only come when it ends") {
  for (EngineOptions options : kSchedulers) {
    options.max_ops = 1;
    Engine engine(options);
    Stream& stream = engine.stream(cpu());
    std::atomic<bool> ran = false;
    engine.push_on(stream, work([&] { engine.push([&] { ran = true; }); }));
    engine.wait_all();
    engine.wait_all();  // waits for the op that the first op's work has pushed
    CHECK(ran);
  }
}

TEST_CASE("under fuzz, room that comes while a stream is looked at is not missed") {
  Engine engine({.scheduler = Scheduler::fuzz, .seed = 1, .max_ops = 1});
  engine.stream(cpu());  // makes a stream, which stays idle
  std::atomic<Completion*> next = nullptr;
  std::atomic<bool> stop = false;
  std::thread completes([&] {
    while (!stop) {
      if (Completion* completion = next.exchange(nullptr)) {
        completion->done();
        delete completion;
      }
    }
  });
  const auto end = Clock::now() + kMostOfRaces;
  for (int i = 0; i < kRaces && Clock::now() < end; ++i) {
    engine.push_async([&](RunContext&, Completion done) { next = new Completion(std::move(done)); });
  }
  engine.wait_all();
  stop = true;
  completes.join();
}

TEST_CASE("clear_error does not wait for room") {
  Engine engine({.scheduler = Scheduler::threaded, .workers = 1, .max_ops = 1});
  const Var x = engine.new_var();
  std::atomic<bool> go = false;
  engine.push([&] { until([&] { return go.load(); }); });
  engine.clear_error(x);
  go = true;
  engine.wait_all();
}

TEST_CASE("a wait in the work of a stream is an error, with every scheduler") {
  on_every_engine([](Engine& engine, Stream& a, Stream&) {
    const Var x = engine.new_var(), y = engine.new_var();
    engine.push_on(a, work([&] { engine.wait(y); }), {.mutate = {x}});
    CHECK_THROWS_AS(engine.wait(x), WouldDeadlock);
    engine.push_on(a, work([&] { engine.wait_all(); }), {.mutate = {x}});
    CHECK_THROWS_AS(engine.wait(x), WouldDeadlock);
    engine.clear_error(x);
  });
}

TEST_CASE("the work of a stream with a thread of its own may push, with every scheduler") {
  for (const EngineOptions& options : kSchedulers) {
    CAPTURE(static_cast<int>(options.scheduler));
    Engine engine(options);
    Stream& stream =
        engine.adopt_stream(std::make_unique<HostStream>(cpu(), Lane::compute, HostStreamOptions{}));
    const Var x = engine.new_var(), y = engine.new_var();
    int value = 0, seen = 0;
    for (int i = 1; i <= 50; ++i) {
      engine.push_on(stream, work([&] {
                       ++value;
                       engine.push([&, now = value] { seen += now == seen + 1; }, {.mutate = {y}});
                     }),
                     {.mutate = {x}});
    }
    engine.wait(x);
    engine.wait(y);
    CHECK(value == 50);
    CHECK(seen == 50);
  }
}

struct Checking {
  Checking() { check::enable(true); }
  ~Checking() { check::enable(was); }
  Checking(const Checking&) = delete;
  Checking& operator=(const Checking&) = delete;
  const bool was = check::enabled();
};

TEST_CASE("the checker holds the function of an op on a stream to its list, and lets its work alone") {
  const Checking on;
  on_every_engine([](Engine& engine, Stream& a, Stream&) {
    const Var x = engine.new_var(), y = engine.new_var();
    check::Record record;
    const auto touch = [&](check::AccessKind how) { record.check_access(x, how, [] { return "x"; }); };
    record.pushed();
    engine.push_on(a,
                   [&](Stream& stream) {
                     touch(check::AccessKind::write);
                     stream.enqueue([&] { touch(check::AccessKind::write); });
                   },
                   {.mutate = {x}});
    CHECK_NOTHROW(engine.wait(x));
    engine.push_on(a, [&](Stream&) { touch(check::AccessKind::write); }, {.read = {x}, .mutate = {y}});
    CHECK_THROWS_AS(engine.wait(y), UndeclaredAccess);
    engine.push_on(a, [&](Stream&) { touch(check::AccessKind::read); }, {.mutate = {y}});
    CHECK_THROWS_AS(engine.wait(y), UndeclaredAccess);
    engine.clear_error(y);
  });
}

TEST_CASE("what a graph's vars wait for on streams is kept") {
  on_every_engine([](Engine& engine, Stream& a, Stream& b) {
    const Var x = engine.new_var(), y = engine.new_var();
    int value = 1, seen = 0;
    const Graph graph = engine.capture([&] {
      engine.push([&] { seen += value; }, {.read = {x}, .mutate = {y}});
      engine.push([&] { value += 1; }, {.read = {x}, .mutate = {x}});
    });
    int expected = 0, serial = 1;
    for (int i = 0; i < 5; ++i) {
      engine.push_on(a, work([&] { value *= 2; }), {.read = {x}, .mutate = {x}});
      graph.launch();
      graph.launch();
      engine.push_on(b, work([&] { value += 5; }), {.read = {x, y}, .mutate = {x}});
      serial *= 2;
      expected += serial + serial + 1;
      serial += 2 + 5;
    }
    engine.wait_all();
    CHECK(value == serial);
    CHECK(seen == expected);
    // If an op on a stream fails, the ops of a graph that depend on it are skipped, and no other ops.
    engine.push_on(a, work([] { throw std::runtime_error("late"); }), {.mutate = {x}});
    graph.launch();
    CHECK_THROWS_WITH(engine.wait(y), "late");
    CHECK_THROWS_WITH(engine.wait(x), "late");
    engine.push([] {}, {.mutate = {x}});
    engine.push([] {}, {.mutate = {y}});
    engine.wait_all();
  });
}

TEST_CASE("an op of a graph may push on a stream, and wait for it") {
  on_every_engine([](Engine& engine, Stream& a, Stream&) {
    const Var x = engine.new_var(), y = engine.new_var();
    int value = 0;
    std::atomic<int> seen = 0;
    const Graph graph = engine.capture([&] {
      engine.push(
          [&] {
            engine.push_on(a, work([&] { ++value; }), {.read = {y}, .mutate = {y}});
            engine.wait(y);
            seen = value;
          },
          {.mutate = {x}});
    });
    for (int i = 0; i < 4; ++i) graph.launch();
    engine.wait_all();
    CHECK(seen == 4);
  });
}

TEST_CASE("priorities on streams change nothing but the order of what may go in any") {
  on_every_engine([](Engine& engine, Stream& a, Stream& b) {
    const Var x = engine.new_var(), y = engine.new_var();
    std::uint64_t value = 1, other = 1;
    std::uint64_t expected = 1, expected_other = 1;
    for (int i = 0; i < 40; ++i) {
      const int priority = (i * 7) % 5 - 2;
      const auto n = static_cast<std::uint64_t>(i);
      if (i % 3 == 0) {
        engine.push([&value, n] { value = value * 3 + n; },
                    {.read = {x}, .mutate = {x}, .priority = priority});
      } else {
        engine.push_on(i % 3 == 1 ? a : b, work([&value, n] { value = value * 3 + n; }),
                       {.read = {x}, .mutate = {x}, .priority = priority});
      }
      engine.push_on(i % 2 == 0 ? a : b, work([&value, &other, n] { other = other * 5 + value + n; }),
                     {.read = {x, y}, .mutate = {y}, .priority = -priority});
      expected = expected * 3 + n;
      expected_other = expected_other * 5 + expected + n;
    }
    engine.wait_all();
    CHECK(value == expected);
    CHECK(other == expected_other);
  });
}

TEST_CASE("ops on streams pushed from several threads, and from inside ops on the CPU and on streams") {
  on_every_engine([](Engine& engine, Stream& a, Stream& b) {
    constexpr int kThreads = 3, kEach = 30;
    std::atomic<int> nested = 0;
    std::atomic<bool> wrong = false;
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        const Var x = engine.new_var(), y = engine.new_var();
        std::uint64_t value = 1, expected = 1;
        const auto step = [&value](std::uint64_t n) { value = value * 3 + n; };
        for (std::uint64_t i = 0; i < kEach; ++i) {
          const auto n = i + static_cast<std::uint64_t>(t);
          Stream& stream = n % 2 == 0 ? a : b;
          Stream& other = n % 2 == 0 ? b : a;
          const auto push_more = [&engine, &other, &nested, n] {
            engine.push_on(other, work([&nested] { ++nested; }), {.priority = static_cast<int>(n % 3) - 1});
          };
          if (n % 3 == 0) {
            engine.push([=] { push_more(), step(n); }, {.read = {x}, .mutate = {x}});
          } else {
            engine.push_on(stream, [=](Stream& on) { push_more(), on.enqueue([=] { step(n); }); },
                           {.read = {x}, .mutate = {x}});
          }
          expected = expected * 3 + n;
          if (n % 7 != 0) continue;
          engine.wait(x);
          if (value != expected) wrong = true;
        }
        engine.wait(x);
        if (value != expected) wrong = true;
      });
    }
    for (std::thread& thread : threads) thread.join();
    engine.wait_all();
    CHECK_FALSE(wrong);
    CHECK(nested == kThreads * kEach);
  });
}

TEST_CASE("an urgent op on a stream is issued before others that were ready earlier") {
  Stepped s(EngineOptions{.scheduler = Scheduler::threaded, .workers = 1});
  std::atomic<bool> started = false, go = false;
  std::vector<int> order;
  s.engine.push([&] {
    started = true;
    until([&] { return go.load(); });
  });
  until([&] { return started.load(); });
  for (int i = 0; i < 5; ++i) s.engine.push_on(s.a, [&order, i](Stream&) { order.push_back(i); });
  s.engine.push_on(s.a, [&](Stream&) { order.push_back(100); }, {.priority = 5});
  go = true;
  s.finish();
  REQUIRE(order.size() == 6);
  CHECK(order[0] == 100);
}

}  // namespace
}  // namespace heddle::test
