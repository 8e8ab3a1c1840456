// Groups of ops: their ops are skipped if the group is cancelled, or its deadline has passed, before they
// start.
#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <thread>

#include <doctest/doctest.h>

#include <heddle/engine.h>

#include "schedulers.h"

using namespace heddle;
using heddle::test::kSchedulers;
using heddle::test::on_every_scheduler_with_errors;
using Clock = std::chrono::steady_clock;

namespace {

Cancelled::Why why(Engine& engine, const Var& var) {
  try {
    engine.wait(var);
  } catch (const Cancelled& error) {
    return error.why();
  }
  throw std::logic_error("not cancelled");
}

}  // namespace

TEST_CASE("ops of a cancelled group fail with Cancelled, and others do not") {
  on_every_scheduler_with_errors([](Engine& engine) {
    Group group, other;
    Var a = engine.new_var(), b = engine.new_var(), c = engine.new_var(), d = engine.new_var();
    int ran = 0;
    group.cancel();
    CHECK(group.cancelled());
    CHECK_FALSE(other.cancelled());
    engine.push([&] { ran += 1; }, {.mutate = {a}, .name = "first", .group = group});
    // skipped: it reads `a`, whose op was cancelled.
    engine.push([&] { ran += 10; }, {.read = {a}, .mutate = {b}});
    engine.push([&] { ran += 100; }, {.mutate = {c}, .group = other});
    engine.push_async([&](RunContext&, Completion done) { done.done(); }, {.mutate = {d}, .group = group});
    CHECK(why(engine, a) == Cancelled::Why::cancelled);
    CHECK(why(engine, b) == Cancelled::Why::cancelled);
    CHECK(why(engine, d) == Cancelled::Why::cancelled);
    engine.wait(c);
    CHECK(ran == 100);
    CHECK(engine.error_of(b).op == "first");
    // runs: it does not read `a`, so it replaces the error of `a`.
    engine.push([&] { ran = 1; }, {.mutate = {a}});
    engine.wait(a);
    CHECK(ran == 1);
  });
}

TEST_CASE("a group whose deadline has passed is overdue; one without or with a later one is not") {
  on_every_scheduler_with_errors([](Engine& engine) {
    Group group;
    Var a = engine.new_var(), b = engine.new_var();
    int ran = 0;
    group.set_deadline(Clock::time_point::min());
    engine.push([&] { ran += 1; }, {.mutate = {a}, .group = group});
    CHECK(why(engine, a) == Cancelled::Why::overdue);
    CHECK(group.cancelled());
    group.set_deadline(Clock::now() + std::chrono::hours(1));
    engine.push([&] { ran += 10; }, {.mutate = {b}, .group = group});
    engine.wait(b);
    group.set_deadline(Clock::time_point::max());
    engine.push([&] { ran += 100; }, {.mutate = {b}, .group = group});
    engine.wait(b);
    CHECK(ran == 110);
    group.set_deadline(Clock::time_point::min());
    group.cancel();  // both reasons to skip the op hold now, and cancel() takes precedence over the deadline
    engine.push([] {}, {.mutate = {b}, .group = group});
    CHECK(why(engine, b) == Cancelled::Why::cancelled);
  });
}

TEST_CASE("a running op goes on and is told; what waits behind it is cancelled") {
  on_every_scheduler_with_errors([](Engine& engine) {
    auto group = std::make_unique<Group>();
    Var a = engine.new_var(), b = engine.new_var();
    bool before = true, after = false, ran = false, grouped = true;
    engine.push(
        [&, mine = *group](RunContext& context) mutable {
          before = context.cancelled();
          mine.cancel();
          after = context.cancelled();
        },
        {.mutate = {a}, .group = *group});
    engine.push([&] { ran = true; }, {.read = {a}, .mutate = {b}, .group = *group});
    group.reset();  // destroys the handle; the pushed ops keep the group itself alive
    engine.push([&](RunContext& context) { grouped = context.cancelled(); }, {.read = {a}});
    engine.wait(a);
    CHECK(why(engine, b) == Cancelled::Why::cancelled);
    engine.push([] {}, {.mutate = {a}});
    engine.wait(a);
    CHECK_FALSE(before);
    CHECK(after);
    CHECK_FALSE(ran);
    CHECK_FALSE(grouped);
  });
}

TEST_CASE("a thousand queued ops are cancelled behind one that runs, and their closures are destroyed") {
  for (int workers : {1, 2, 4}) {
    Engine engine({.workers = workers});
    Group group;
    Var gate = engine.new_var();
    std::atomic<bool> started = false, open = false;
    std::atomic<int> ran = 0;
    auto token = std::make_shared<int>();
    engine.push(
        [&] {
          started = true;
          while (!open) std::this_thread::yield();
        },
        {.mutate = {gate}, .group = group});
    for (int i = 0; i < 1000; ++i) {
      engine.push([&, token] { ++ran; }, {.read = {gate}, .group = group});
    }
    while (!started) std::this_thread::yield();
    group.cancel();
    open = true;
    try {
      engine.wait_all();
      FAIL("no error");
    } catch (const AggregateError& errors) {
      // The ops mutate no var, so the group gets one report for all of them.
      CHECK(errors.reports().size() == 1);
      CHECK_THROWS_AS(std::rethrow_exception(errors.reports()[0].exception), Cancelled);
    }
    CHECK(ran == 0);
    CHECK(token.use_count() == 1);
  }
}

TEST_CASE("prepared ops belong to their group, and one engine's group may be another's") {
  on_every_scheduler_with_errors([](Engine& engine) {
    Engine other({.scheduler = Scheduler::naive});
    Group group;
    Var a = engine.new_var(), b = other.new_var();
    int ran = 0;
    PreparedOp op = engine.prepare([&] { ++ran; }, {.mutate = {a}, .group = group});
    engine.push(op);
    engine.wait(a);
    group.cancel();
    engine.push(op);
    other.push([&] { ++ran; }, {.mutate = {b}, .group = group});
    CHECK(why(engine, a) == Cancelled::Why::cancelled);
    CHECK(why(other, b) == Cancelled::Why::cancelled);
    CHECK(ran == 1);
  });
}

TEST_CASE("a group cancelled from another thread while ops stream through it") {
  for (const EngineOptions& options : kSchedulers) {
    Engine engine(options);
    Group group;
    Var var = engine.new_var();
    std::atomic<int> ran = 0;
    std::thread canceller([&] {
      while (ran < 100) std::this_thread::yield();
      group.cancel();
    });
    while (!group.cancelled()) engine.push([&] { ++ran; }, {.mutate = {var}, .group = group});
    canceller.join();
    const int pushed_after = ran;
    engine.push([&] { ran = -1; }, {.mutate = {var}, .group = group});
    CHECK(why(engine, var) == Cancelled::Why::cancelled);
    CHECK(ran >= 100);
    CHECK(pushed_after >= 100);
    engine.push([] {}, {.mutate = {var}});
    try {
      engine.wait_all();
    } catch (const AggregateError&) {
    }
  }
}
