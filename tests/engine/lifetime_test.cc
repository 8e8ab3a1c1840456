// Fork: the parent does not notice, the child starts afresh. What happens at exit: exit_program.cc.
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/engine.h>

using namespace heddle;

namespace {

constexpr Scheduler kInChild = Scheduler::HEDDLE_TEST_CHILD_SCHEDULER;

// Runs `body` in a forked child; its result is the child's exit code, 100 for an exception.
int in_child(const std::function<int()>& body) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    int code = 100;
    try {
      code = body();
    } catch (...) {
    }
    _exit(code);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

template <class F> bool throws_error(F&& call) {
  try {
    call();
  } catch (const Error&) {
    return true;
  }
  return false;
}

}  // namespace

TEST_CASE("fork with ops in flight: the child gets a fresh default engine, the parent goes on") {
  Engine& engine = default_engine();
  const bool in_flight =
      engine.options().scheduler == Scheduler::threaded;  // the others run ops on this thread
  Var done = engine.new_var(), busy = engine.new_var();
  std::atomic<bool> go = false;
  std::atomic<int> runs = 0;
  engine.push([&] { ++runs; }, {.mutate = {done}});
  engine.wait(done);
  engine.push(
      [&] {
        while (in_flight && !go) std::this_thread::yield();
        ++runs;
      },
      {.mutate = {busy}});
  const int code = in_child([&] {
    engine.wait(done);
    if (in_flight && !throws_error([&] { engine.wait(busy); })) return 1;
    if (!throws_error([&] { engine.push([] {}, {.mutate = {done}}); })) return 2;
    if (!throws_error([&] { engine.wait_all(); })) return 3;
    if (&default_engine() == &engine) return 4;
    Var fresh = default_engine().new_var();
    int value = 0;
    for (int i = 0; i < 1000; ++i) default_engine().push([&] { ++value; }, {.mutate = {fresh}});
    default_engine().wait(fresh);
    if (value != 1000) return 5;
    done = Var();
    busy = Var();
    return 0;
  });
  CHECK(code == 0);
  go = true;
  engine.wait(busy);
  CHECK(runs == 2);
  CHECK(&default_engine() == &engine);
}

TEST_CASE("an engine of its own survives fork in the parent and may be destroyed in the child") {
  auto* engine = new Engine({.workers = 2});
  Var var = engine->new_var();
  int value = 0;
  for (int i = 0; i < 100; ++i) engine->push([&] { ++value; }, {.mutate = {var}});
  CHECK(in_child([&] {
          delete engine;
          return 0;
        }) == 0);
  engine->wait(var);
  CHECK(value == 100);
  delete engine;
}

TEST_CASE("forks while other threads push") {
  Engine engine({.workers = 2});
  std::atomic<bool> stop = false;
  std::thread pusher([&] {
    Var var = engine.new_var();
    while (!stop) {
      for (int i = 0; i < 100; ++i) engine.push([] {}, {.mutate = {var}});
      engine.wait(var);
    }
  });
  for (int round = 0; round < 20; ++round) {
    CHECK(in_child([] {
            Var var = default_engine().new_var();
            int value = 0;
            default_engine().push([&] { value = 7; }, {.mutate = {var}});
            default_engine().wait(var);
            return value;
          }) == 7);
  }
  stop = true;
  pusher.join();
}

TEST_CASE("vars, prepared ops and what ops hold may outlive their engine") {
  for (Scheduler scheduler : {Scheduler::naive, Scheduler::threaded, Scheduler::fuzz}) {
    std::vector<Var> vars;
    std::optional<PreparedOp> prepared;
    auto held = std::make_shared<int>(0);
    {
      Engine engine({.scheduler = scheduler, .workers = 2});
      for (int i = 0; i < 100; ++i) vars.push_back(engine.new_var());
      prepared = engine.prepare([held] { ++*held; }, {.read = {vars[0]}, .mutate = {vars[1]}});
      for (int i = 0; i < 50; ++i) engine.push(*prepared);
      // The last handle of the var is the closure's own.
      engine.push([var = engine.new_var()] { CHECK(var); }, {.mutate = {vars[2]}});
    }
    CHECK(*held == 50);
    CHECK(held.use_count() == 2);
    std::vector<Var> copies = vars;
    vars.clear();
    CHECK(copies[0] == Var(copies[0]));
    prepared.reset();
    CHECK(held.use_count() == 1);
  }
}

TEST_CASE("fork with ops under way and others not entered yet: the child makes an engine of its own") {
  Engine engine({.workers = 1, .watchdog = 1e6});
  Var busy = engine.new_var(), queued = engine.new_var();
  std::atomic<bool> go = false, entered = false;
  int runs = 0;
  engine.push(
      [&] {
        entered = true;
        while (!go) std::this_thread::yield();
      },
      {.mutate = {busy}});
  while (!entered) std::this_thread::yield();
  // The one worker is inside an op: nobody takes these from the queue before it ends.
  for (int i = 0; i < 1000; ++i) engine.push([&] { ++runs; }, {.read = {busy}, .mutate = {queued}});
  const int code = in_child([&] {
    if (!throws_error([&] { engine.wait(queued); })) return 1;
    if (engine.describe_pending().find("fork()") == std::string::npos) return 2;
    Engine fresh({.scheduler = kInChild, .workers = 3});
    Var var = fresh.new_var();
    int value = 0;
    for (int i = 0; i < 1000; ++i) fresh.push([&] { ++value; }, {.mutate = {var}});
    fresh.wait_all();
    queued = Var();
    return value == 1000 && runs == 0 ? 0 : 3;
  });
  CHECK(code == 0);
  go = true;
  engine.wait(queued);
  CHECK(runs == 1000);
}

TEST_CASE("two hundred forks while four threads push, make vars and let go of them") {
  Engine engine({.workers = 2});
  std::atomic<bool> stop = false;
  std::vector<std::thread> pushers;
  std::atomic<int> wrong = 0;
  for (int i = 0; i < 4; ++i) {
    pushers.emplace_back([&] {
      while (!stop) {
        Var var = engine.new_var(), other = engine.new_var();
        int value = 0;
        for (int k = 0; k < 50; ++k) engine.push([&] { ++value; }, {.read = {other}, .mutate = {var}});
        engine.wait(var);
        wrong += value != 50;
      }
    });
  }
  int good = 0;
  for (int round = 0; round < 200; ++round) {
    good += in_child([] {
              Engine fresh({.scheduler = kInChild, .workers = 2});
              Var var = fresh.new_var();
              int value = 0;
              for (int k = 0; k < 20; ++k) fresh.push([&] { ++value; }, {.mutate = {var}});
              fresh.wait(var);
              return value;
            }) == 20;
  }
  stop = true;
  for (std::thread& pusher : pushers) pusher.join();
  CHECK(good == 200);
  CHECK(wrong == 0);
}
