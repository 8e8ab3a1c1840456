// Ops on streams of an engine: their order, errors and waits. Each test checks one rule.
#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/check.h>
#include <heddle/host_stream.h>
#include <heddle/stream_ops.h>

#include "schedulers.h"
#include "stepped.h"

namespace heddle::test {
namespace {

TEST_CASE("an op on the same stream is issued at once and runs after") {
  Stepped s;
  const Var x = s.engine.new_var();
  std::atomic<int> issued = 0;
  int value = 1;
  auto times = [&](int factor, int plus) {
    return [&, factor, plus](Stream& stream) {
      ++issued;
      stream.enqueue([&, factor, plus] { value = value * factor + plus; });
    };
  };
  s.engine.push_on(s.a, times(10, 2), {.mutate = {x}});
  s.engine.push_on(s.a, times(10, 3), {.read = {x}, .mutate = {x}});
  until([&] { return issued == 2; });
  CHECK(value == 1);
  s.finish();
  CHECK(value == 123);
}

TEST_CASE("a read on another stream is issued at once and runs after the write") {
  Stepped s;
  const Var x = s.engine.new_var(), y = s.engine.new_var();
  std::atomic<int> issued = 0;
  int value = 0, seen = -1;
  s.engine.push_on(s.a, work([&] { value = 7; }), {.mutate = {x}});
  s.engine.push_on(s.b,
                   [&](Stream& stream) {
                     ++issued;
                     stream.enqueue([&] { seen = value; });
                   },
                   {.read = {x}, .mutate = {y}});
  until([&] { return issued == 1; });
  s.let_be();
  run_dry(s.b);
  CHECK(seen == -1);
  run_dry(s.a);
  s.finish();
  CHECK(seen == 7);
}

TEST_CASE("a write on another stream runs after the reads, and reads on two streams together") {
  Stepped s;
  HostStream& c = s.add({});
  const Var x = s.engine.new_var(), y = s.engine.new_var(), z = s.engine.new_var();
  int value = 1, from_a = 0, from_b = 0;
  s.engine.push_on(s.a, work([&] { from_a = value; }), {.read = {x}, .mutate = {y}});
  s.engine.push_on(s.b, work([&] { from_b = value; }), {.read = {x}, .mutate = {z}});
  s.engine.push_on(c, work([&] { value = 2; }), {.mutate = {x}});
  s.let_be();
  run_dry(c);
  CHECK(value == 1);
  until([&] { return s.b.step() && from_b == 1; });
  run_dry(s.b);
  s.let_be();
  run_dry(c);
  CHECK(value == 1);
  s.finish();
  CHECK(from_a == 1);
  CHECK(value == 2);
}

TEST_CASE("an op on the CPU reads what a stream has written: it runs when that is done") {
  Stepped s;
  const Var x = s.engine.new_var(), y = s.engine.new_var();
  int value = 0;
  std::atomic<int> seen = -1;
  s.engine.push_on(s.a, work([&] { value = 7; }), {.mutate = {x}});
  s.engine.push([&] { seen = value; }, {.read = {x}, .mutate = {y}});
  s.let_be();
  until([&] { return s.a.run_one(); });
  until([&] { return s.a.run_one(); });
  s.let_be();
  // The op on the CPU has not run: the stream has run the work, but the work's event is not complete.
  CHECK(seen == -1);
  CHECK(s.a.complete_one());
  s.engine.wait(y);
  CHECK(seen == 7);
}

TEST_CASE(
    "an op on the CPU overwrites what a stream reads when that is done; one that reads too does not wait") {
  Stepped s;
  const Var x = s.engine.new_var(), y = s.engine.new_var(), z = s.engine.new_var();
  std::atomic<int> value = 1;
  int from_stream = 0, from_cpu = 0;
  s.engine.push_on(s.a, work([&] { from_stream = value; }), {.read = {x}, .mutate = {y}});
  s.engine.push([&] { from_cpu = value; }, {.read = {x}, .mutate = {z}});
  s.engine.push([&] { value = 2; }, {.mutate = {x}});
  s.engine.wait(z);
  s.let_be();
  CHECK(value == 1);
  s.finish();
  CHECK(from_stream == 1);
  CHECK(from_cpu == 1);
  CHECK(value == 2);
}

TEST_CASE("an op on a stream is issued when the op on the CPU before it has ended") {
  Stepped s;
  const Var x = s.engine.new_var();
  std::atomic<bool> go = false, issued = false;
  int value = 0, seen = -1;
  s.engine.push(
      [&] {
        while (!go) std::this_thread::yield();
        value = 7;
      },
      {.mutate = {x}});
  s.engine.push_on(s.a,
                   [&](Stream& stream) {
                     issued = true;
                     stream.enqueue([&] { seen = value; });
                   },
                   {.read = {x}});
  s.let_be();
  CHECK_FALSE(issued);
  go = true;
  s.finish();
  CHECK(seen == 7);
}

TEST_CASE("asynchronous and prepared ops come after streams, and streams after them") {
  on_every_engine([](Engine& engine, Stream& a, Stream& b) {
    const Var x = engine.new_var();
    int value = 1;
    const PreparedOp twice = engine.prepare([&] { value *= 2; }, {.read = {x}, .mutate = {x}});
    for (int i = 0; i < 3; ++i) {
      engine.push_on(a, work([&] { value += 1; }), {.read = {x}, .mutate = {x}});
      engine.push_async(
          [&](RunContext&, Completion completion) {
            value *= 3;
            completion.done();
          },
          {.read = {x}, .mutate = {x}});
      engine.push_on(b, [&](RunContext&, Stream& stream) { stream.enqueue([&] { value += 1; }); },
                     {.read = {x}, .mutate = {x}});
      engine.push(twice);
    }
    engine.wait(x);
    CHECK(value == 560);
  });
}

TEST_CASE("an error of a stream's work goes where the data goes") {
  on_every_engine([](Engine& engine, Stream& a, Stream& b) {
    const Var bad = engine.new_var(), mixed = engine.new_var(), copied = engine.new_var(),
              sum = engine.new_var();
    int runs = 0;
    engine.push_on(a, work([] { throw std::range_error("late"); }), {.mutate = {bad}, .name = "load"});
    engine.push_on(b, [](Stream&) { throw std::logic_error("its own, which does not count"); },
                   {.read = {bad}, .mutate = {mixed}, .name = "mix"});
    engine.push_on(b, work([] {}), {.read = {mixed}, .mutate = {copied}, .name = "copy"});
    engine.push([&] { ++runs; }, {.read = {copied}, .mutate = {sum}, .name = "sum"});
    CHECK_THROWS_WITH_AS(engine.wait(sum), "late", std::range_error);
    CHECK_THROWS_WITH_AS(engine.wait(bad), "late", std::range_error);
    CHECK(runs == 0);
    const ErrorReport report = engine.error_of(sum);
    CHECK(report.op == "load");
    REQUIRE(report.path.size() == 3);
    CHECK(report.path[0].starts_with("mix at "));
    CHECK(report.path[1].starts_with("copy at "));
    CHECK(report.path[2].starts_with("sum at "));
    // Overwrites the failed vars, on a stream and on the CPU.
    engine.push_on(b, work([&] { ++runs; }), {.mutate = {bad}});
    engine.push([&] { ++runs; }, {.read = {bad}, .mutate = {copied}});
    engine.wait(copied);
    engine.wait(bad);
    CHECK(runs == 2);
    CHECK_FALSE(engine.error_of(bad).exception);
    CHECK(engine.error_of(sum).exception);
    CHECK_THROWS_AS(engine.wait_all(), AggregateError);
  });
}

TEST_CASE("an op on the CPU that changes what a stream has failed to write is skipped") {
  on_every_engine([](Engine& engine, Stream& a, Stream&) {
    const Var x = engine.new_var();
    bool ran = false;
    engine.push_on(a, work([] { throw std::range_error("late"); }), {.mutate = {x}});
    engine.push([&] { ran = true; }, {.read = {x}, .mutate = {x}});
    CHECK_THROWS_WITH(engine.wait(x), "late");
    CHECK_FALSE(ran);
  });
}

TEST_CASE("an error while issuing, and one on the CPU that a stream reads") {
  on_every_engine([](Engine& engine, Stream& a, Stream& b) {
    const Var x = engine.new_var(), y = engine.new_var(), z = engine.new_var();
    bool ran = false;
    engine.push_on(a, [](Stream&) { throw std::runtime_error("issuing"); }, {.mutate = {x}});
    CHECK_THROWS_WITH(engine.wait(x), "issuing");
    engine.push([] { throw std::runtime_error("on the CPU"); }, {.mutate = {y}});
    engine.push_on(b, work([&] { ran = true; }), {.read = {y}, .mutate = {z}});
    CHECK_THROWS_WITH(engine.wait(z), "on the CPU");
    CHECK_FALSE(ran);
    // An op that reads vars with different errors inherits the error of the op that was pushed first.
    engine.push_on(b, work([] { throw std::runtime_error("third"); }), {.mutate = {z}});
    engine.push_on(a, work([] {}), {.read = {z, y, x}, .mutate = {z}});
    CHECK_THROWS_WITH(engine.wait(z), "issuing");
    CHECK_THROWS_AS(engine.wait_all(), AggregateError);
  });
}

std::string words_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& known) {
    return known.what();
  }
}

TEST_CASE("an op on a stream is told once how it ends: skipped, or its work has run") {
  struct Asked {
    std::string* told;
    std::function<void()> fn;
    std::exception_ptr answer;
    void operator()(Stream& stream) const { stream.enqueue(fn); }
    void skipped(const std::exception_ptr& why) const noexcept { *told += "skipped " + words_of(why) + "; "; }
    std::exception_ptr outcome(const std::exception_ptr& failure) const noexcept {
      *told += "ended " + (failure ? words_of(failure) : "well") + "; ";
      return failure ? failure : answer;
    }
  };
  on_every_engine([](Engine& engine, Stream& a, Stream& b) {
    const Var x = engine.new_var(), y = engine.new_var();
    std::string told;
    const auto good = [] {};
    const auto fails = [] { throw std::runtime_error("late"); };
    engine.push_on(a, Asked{&told, good, nullptr}, {.mutate = {x}});
    engine.wait(x);
    engine.push_on(a, Asked{&told, fails, nullptr}, {.mutate = {x}});
    CHECK_THROWS_WITH(engine.wait(x), "late");
    engine.push_on(b, Asked{&told, good, nullptr}, {.read = {x}, .mutate = {y}});
    CHECK_THROWS_WITH(engine.wait(y), "late");
    CHECK(told == "ended well; ended late; skipped late; ");
    // If the op's function returns an error, that is the op's error.
    engine.push_on(a, Asked{&told, good, std::make_exception_ptr(std::runtime_error("aborted"))},
                   {.mutate = {x}});
    engine.push([] {}, {.read = {x}, .mutate = {y}});
    CHECK_THROWS_WITH(engine.wait(y), "aborted");
  });
}

TEST_CASE("an op on a stream that is skipped still stands between the ops before and after it") {
  Stepped s;
  const Var poison = s.engine.new_var(), y = s.engine.new_var(), out = s.engine.new_var();
  std::atomic<int> value = 1;
  int seen = 0;
  s.engine.push([] { throw std::runtime_error("lost"); }, {.mutate = {poison}});
  CHECK_THROWS(s.engine.wait(poison));
  s.engine.push_on(s.a, work([&] { seen = value; }), {.read = {y}, .mutate = {out}});
  s.engine.push_on(s.b, work([&] { value = 2; }), {.read = {poison}, .mutate = {y}});
  s.engine.push([&] { value = 3; }, {.mutate = {y}});
  s.let_be();
  CHECK(value == 1);
  s.finish();
  CHECK(seen == 1);
  CHECK(value == 3);
}

TEST_CASE("clear_error forgets what a stream has failed with, and what it will fail with") {
  on_every_engine([](Engine& engine, Stream& a, Stream& b) {
    const Var x = engine.new_var();
    int value = 0;
    engine.push_on(a, work([] { throw std::runtime_error("known"); }), {.mutate = {x}});
    CHECK_THROWS(engine.wait(x));
    engine.clear_error(x);
    engine.push_on(b, work([&] { value += 1; }), {.read = {x}, .mutate = {x}});
    engine.wait(x);
    CHECK(value == 1);
    engine.push_on(a, work([] { throw std::runtime_error("to come"); }), {.mutate = {x}});
    engine.clear_error(x);
    engine.push_on(b, work([&] { value += 1; }), {.read = {x}, .mutate = {x}});
    engine.push([&] { value *= 2; }, {.read = {x}, .mutate = {x}});
    engine.wait(x);
    CHECK(value == 4);
    CHECK_THROWS_AS(engine.wait_all(), AggregateError);  // the error "to come", which nothing has seen
  });
}

TEST_CASE("an error that was seen and poisons nothing any more is not reported again") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    Engine engine({.scheduler = seed == 0 ? Scheduler::naive : Scheduler::fuzz, .seed = seed});
    Stream& a = engine.stream(cpu());
    const Var x = engine.new_var(), y = engine.new_var();
    auto fail = work([] { throw std::runtime_error("seen"); });
    engine.push_on(a, fail, {.read = {y}, .mutate = {x}});
    CHECK_THROWS_WITH(engine.wait(x), "seen");
    CHECK_THROWS_AS(engine.wait_all(), AggregateError);
    engine.push_on(a, work([] {}), {.mutate = {x}});
    CHECK_NOTHROW(engine.wait_all());
    engine.push_on(a, fail, {.read = {y}, .mutate = {x}});
    CHECK_THROWS_WITH(engine.wait(x), "seen");
    engine.clear_error(x);
    CHECK_NOTHROW(engine.wait_all());
  }
}

TEST_CASE("clear_error does not wait for the stream, what reads the var does") {
  Stepped s;
  const Var x = s.engine.new_var();
  std::atomic<bool> ran = false;
  s.engine.push_on(s.a, work([] { throw std::runtime_error("to come"); }), {.mutate = {x}});
  s.engine.clear_error(x);
  s.engine.push([&] { ran = true; }, {.read = {x}});
  s.let_be();
  CHECK_FALSE(ran);
  s.finish();
  CHECK(ran);
  CHECK_FALSE(s.engine.error_of(x).exception);
}

TEST_CASE("wait and wait_all return when the work is done, not when it is issued") {
  Stepped s;
  const Var x = s.engine.new_var();
  std::atomic<int> issued = 0, returned = 0, done = 0;
  s.engine.push_on(s.a,
                   [&](Stream& stream) {
                     ++issued;
                     stream.enqueue([&] { ++done; });
                   },
                   {.mutate = {x}});
  std::thread waits_var([&] {
    s.engine.wait(x);
    CHECK(done == 1);
    ++returned;
  });
  std::thread waits_all([&] {
    s.engine.wait_all();
    CHECK(done == 1);
    ++returned;
  });
  until([&] { return issued == 1; });
  CHECK(returned == 0);
  until([&] { return s.a.run_one(); });
  until([&] { return s.a.run_one(); });
  s.let_be();
  CHECK(returned == 0);
  CHECK(s.a.complete_one());
  waits_var.join();
  waits_all.join();
}

TEST_CASE("a wait for a stream does not keep the var from later ops") {
  Stepped s;
  const Var x = s.engine.new_var();
  std::atomic<int> issued = 0;
  auto count = [&](Stream&) { ++issued; };
  s.engine.push_on(s.a, count, {.mutate = {x}});
  std::thread waits([&] { s.engine.wait(x); });
  s.let_be();
  s.engine.push_on(s.a, count, {.mutate = {x}});
  until([&] { return issued == 2; });
  s.finish();
  waits.join();
}

TEST_CASE("a wait inside an op on the CPU ends when the stream is done") {
  on_every_engine([](Engine& engine, Stream& a, Stream&) {
    const Var x = engine.new_var(), y = engine.new_var();
    int value = 0, seen = 0;
    engine.push(
        [&] {
          engine.push_on(a, work([&] { value = 7; }), {.mutate = {x}});
          engine.wait(x);
          seen = value;
        },
        {.mutate = {y}});
    engine.wait(y);
    CHECK(seen == 7);
  });
}

TEST_CASE("waiting inside the function of an op on a stream is an error; pushing is not") {
  on_every_engine([](Engine& engine, Stream& a, Stream& b) {
    const Var x = engine.new_var(), y = engine.new_var(), z = engine.new_var();
    int value = 0;
    engine.push_on(a, [&](Stream&) { engine.wait(y); }, {.mutate = {x}});
    CHECK_THROWS_AS(engine.wait(x), WouldDeadlock);
    engine.push_on(a, [&](Stream&) { engine.wait_all(); }, {.mutate = {x}});
    CHECK_THROWS_AS(engine.wait(x), WouldDeadlock);
    engine.clear_error(x);
    engine.push_on(a, [&](Stream&) { engine.push_on(b, work([&] { value = 7; }), {.mutate = {z}}); },
                   {.mutate = {y}});
    engine.wait_all();
    CHECK(value == 7);
  });
}

TEST_CASE("a var may go while fences are pending on it") {
  Stepped s;
  int value = 0;
  {
    const Var x = s.engine.new_var(), y = s.engine.new_var();
    s.engine.push_on(s.a, work([&] { value = 1; }), {.mutate = {x}});
    s.engine.push_on(s.b, work([&] { value *= 2; }), {.read = {x}, .mutate = {y}});
    s.let_be();
  }
  s.let_be();
  CHECK(value == 0);
  s.finish();
  CHECK(value == 2);
}

TEST_CASE("what an op on a stream holds lives until its work is done, and no longer") {
  Stepped s;
  const Var x = s.engine.new_var();
  auto held = std::make_shared<int>(7);
  const std::weak_ptr<int> watched = held;
  int seen = 0;
  s.engine.push_on(
      s.a, [&seen, held](Stream& stream) { stream.enqueue([&seen, raw = held.get()] { seen = *raw; }); },
      {.mutate = {x}});
  held = nullptr;
  s.let_be();
  CHECK_FALSE(watched.expired());
  s.finish();
  CHECK(seen == 7);
  CHECK(watched.expired());
}

TEST_CASE("an engine ends when the work on its streams is done, and vars may outlive it") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    std::atomic<int> done = 0;
    Var last;
    {
      Engine engine({.workers = 2});
      last = engine.new_var();
      for (std::uint64_t i = 0; i < 3; ++i) {
        const HostStreamOptions options{.seed = seed + i, .most_delay = 20, .calls_back = seed % 2 == 0};
        Stream& stream = engine.adopt_stream(std::make_unique<HostStream>(cpu(), Lane::compute, options));
        for (int n = 0; n < 20; ++n) engine.push_on(stream, work([&] { ++done; }), {.read = {last}});
        engine.push_on(stream, work([&] { ++done; }), {.mutate = {last}});
      }
    }
    CHECK(done == 63);
  }
}

TEST_CASE("threads that push on one stream do not get into each other's way") {
  for (const int workers : {1, 4}) {
    Engine engine({.scheduler = Scheduler::threaded, .workers = workers});
    Stream& stream = engine.stream(cpu());
    constexpr int kThreads = 4, kEach = 500;
    int sum = 0;  // not atomic, since the stream runs its work in order
    std::atomic<int> inside = 0, crowds = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < kEach; ++i) {
          engine.push_on(stream, [&](Stream& on) {
            if (inside.fetch_add(1) != 0) ++crowds;
            on.enqueue([&] { ++sum; });
            inside.fetch_sub(1);
          });
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    engine.wait_all();
    CHECK(sum == kThreads * kEach);
    CHECK(crowds == 0);
  }
}

// A stream that cannot create events.
class Exhausted final : public Stream {
 public:
  Exhausted() : Stream(cpu(), Lane::compute) {}
  void enqueue(std::function<void()>) override {}
  void copy(void*, const void*, std::size_t) override {}
  std::unique_ptr<Event> make_event() override { throw std::runtime_error("no events"); }
  void record(Event&) override {}
  bool can_wait_for(const Stream&) const override { return true; }
  void wait(Event&, std::uint64_t) override {}
  bool poll(Event&, std::uint64_t, std::exception_ptr&) noexcept override { return true; }
};

TEST_CASE("an op that cannot be issued fails, when what it was to come after is done") {
  Stepped s;
  Stream& exhausted = s.engine.adopt_stream(std::make_unique<Exhausted>());
  const Var x = s.engine.new_var();
  std::atomic<int> value = 0;
  s.engine.push_on(s.a, work([&] { value = 1; }), {.mutate = {x}});
  s.engine.push_on(exhausted, [](Stream&) {}, {.mutate = {x}, .name = "next"});
  s.engine.push([&] { value = 2; }, {.mutate = {x}});
  s.let_be();
  CHECK(value == 0);
  s.finish();
  CHECK(value == 2);
  s.engine.push_on(exhausted, [](Stream&) {}, {.mutate = {x}, .name = "last"});
  CHECK_THROWS_WITH(s.engine.wait(x), "no events");
  CHECK(s.engine.error_of(x).op == "last");
}

TEST_CASE("streams belong to one engine") {
  on_every_scheduler([](Engine& engine) {
    CHECK(&engine.stream(cpu()) == &engine.stream(cpu(0), Lane::compute));
    CHECK(&engine.stream(cpu()) != &engine.stream(cpu(1)));
    CHECK(&engine.stream(cpu()) != &engine.stream(cpu(), Lane::copy_in));
    CHECK(&engine.make_stream(cpu()) != &engine.make_stream(cpu()));
    CHECK(engine.stream(cpu(2), Lane::copy_out).device() == cpu(2));
    CHECK(engine.stream(cpu(2), Lane::copy_out).lane() == Lane::copy_out);
    CHECK_THROWS_AS(engine.stream(cpu_pinned()), InvalidArgument);
    CHECK_THROWS_AS(engine.adopt_stream(nullptr), InvalidArgument);
    Engine other({.scheduler = Scheduler::naive});
    HostStream nobodys(cpu());
    CHECK_THROWS_AS(engine.push_on(other.stream(cpu()), [](Stream&) {}), InvalidArgument);
    CHECK_THROWS_AS(other.push_on(nobodys, [](Stream&) {}), InvalidArgument);
    CHECK_THROWS_AS(engine.push_on(engine.stream(cpu()), [](Stream&) {}, {.mutate = {Var()}}),
                    InvalidArgument);
  });
}

TEST_CASE("the checker sees work that is pending on a stream") {
  const bool was_on = check::enabled();
  check::enable(true);
  {
    Stepped s;
    const Var x = s.engine.new_var();
    check::Record record;
    auto touch = [&] { record.check_access(x, check::AccessKind::read, [] { return "x"; }); };
    record.pushed();
    s.engine.push_on(s.a, work([] {}), {.mutate = {x}});
    s.let_be();
    CHECK_THROWS_AS(touch(), UndeclaredAccess);
    s.finish();
    CHECK_NOTHROW(touch());
  }
  check::enable(was_on);
}

}  // namespace
}  // namespace heddle::test
