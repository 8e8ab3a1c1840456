// Fork: the parent does not notice, the child starts afresh. What happens at exit: exit_program.cc.
#include <atomic>
#include <functional>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <doctest/doctest.h>

#include <heddle/engine.h>

using namespace heddle;

namespace {

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
