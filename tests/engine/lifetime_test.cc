// A fork does not affect the parent, and gives the child a new engine. exit_program.cc tests what happens
// when processes exit.
#include <algorithm>
#include <atomic>
#include <cstddef>
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
#include <heddle/host_stream.h>
#include <heddle/stream_ops.h>
#include <heddle/var_use.h>

#include "arguments.h"
#include "op/op_memory.h"

using namespace heddle;

namespace {

constexpr Scheduler kInChild = Scheduler::HEDDLE_TEST_CHILD_SCHEDULER;

// AddressSanitizer's allocator does not handle forks. A lock that another thread holds stays locked in the
// child. With it, tests in which other threads allocate during a fork are skipped.
#ifdef __SANITIZE_ADDRESS__
constexpr bool kCannotForkNow = true;
#else
constexpr bool kCannotForkNow = false;
#endif
// ThreadSanitizer's allocator takes locks when a thread needs more memory.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kCannotForkWhileOthersAllocate = true;
#else
constexpr bool kCannotForkWhileOthersAllocate = false;
#endif

// Runs `body` in a forked child. Returns the child's exit code, which is what `body` returns, or 100 if it
// throws.
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

TEST_CASE("fork with ops in flight: the child gets a fresh default engine, the parent goes on" *
          doctest::skip(kCannotForkNow)) {
  Engine& engine = default_engine();
  // The other schedulers run ops on this thread, so no op can be in flight at the fork.
  const bool in_flight = engine.options().scheduler == Scheduler::threaded;
  Var done = engine.new_var(), busy = engine.new_var();
  std::atomic<bool> go = false, started = false;
  std::atomic<int> runs = 0;
  engine.push([&] { ++runs; }, {.mutate = {done}});
  engine.wait(done);
  engine.push(
      [&] {
        started = true;
        while (in_flight && !go) std::this_thread::yield();
        ++runs;
      },
      {.mutate = {busy}});
  while (in_flight && !started) std::this_thread::yield();
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

TEST_CASE("forks while other threads push" * doctest::skip(kCannotForkWhileOthersAllocate)) {
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
      // The closure has the last reference to its var when the engine is destroyed.
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
        go.wait(false);
      },
      {.mutate = {busy}});
  while (!entered) std::this_thread::yield();
  // The only worker is inside the op on `busy`, so the ops that follow stay in the queue until that op ends.
  for (int i = 0; i < 1000; ++i) engine.push([&] { ++runs; }, {.read = {busy}, .mutate = {queued}});
  const int code = in_child([&] {
    if (!throws_error([&] { engine.wait(queued); })) return 1;
    if (engine.describe_pending().find("fork()") == std::string::npos) return 2;
    if (!has_ended(engine)) return 4;
    Engine fresh({.scheduler = kInChild, .workers = 3});
    Var var = fresh.new_var();
    int value = 0;
    for (int i = 0; i < 1000; ++i) fresh.push([&] { ++value; }, {.mutate = {var}});
    fresh.wait_all();
    queued = Var();
    return value == 1000 && runs == 0 && !has_ended(fresh) ? 0 : 3;
  });
  CHECK(code == 0);
  go = true;
  go.notify_one();
  engine.wait(queued);
  CHECK(runs == 1000);
}

TEST_CASE("the child of a fork takes no op for done that a worker was about to enter" *
          doctest::skip(kCannotForkNow)) {
  constexpr int kVars = 400;
  for (int round = 0; round < 100; ++round) {
    Engine engine({.workers = 2});
    Var busy = engine.new_var();
    std::vector<Var> vars;
    for (int i = 0; i < kVars; ++i) vars.push_back(engine.new_var());
    std::atomic<bool> go = false, inside = false;
    engine.push(
        [&] {
          inside = true;
          while (!go) std::this_thread::yield();
        },
        {.mutate = {busy}});
    while (!inside) std::this_thread::yield();
    // The ops that follow wait for `busy`. The worker that is free enters them while the process forks.
    for (int i = 0; i < kVars; ++i) engine.push([] {}, {.read = {busy}, .mutate = {vars[i]}});
    const int done = in_child([&] {
      int count = 0;
      for (const Var& var : vars) count += !throws_error([&] { engine.wait(var); });
      return count > 0;
    });
    CHECK(done == 0);
    go = true;
    engine.wait_all();
  }
}

TEST_CASE("many forks while four threads push, make vars and let go of them" *
          doctest::skip(kCannotForkWhileOthersAllocate)) {
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
  constexpr int kForks = 200;
  int good = 0;
  for (int round = 0; round < kForks; ++round) {
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
  CHECK(good == kForks);
  CHECK(wrong == 0);
}

TEST_CASE("the child of a fork sees what streams have done, and what they were doing when it began") {
  Engine engine({.scheduler = Scheduler::threaded, .workers = 1});
  Stream& threaded = engine.stream(cpu());
  Var done = engine.new_var(), failed = engine.new_var(), busy = engine.new_var();
  engine.push_on(threaded, [](Stream& stream) { stream.enqueue([] {}); }, {.mutate = {done}});
  engine.push_on(threaded, [](Stream&) { throw std::runtime_error("on a stream"); }, {.mutate = {failed}});
  engine.wait(done);
  CHECK_THROWS_WITH(engine.wait(failed), "on a stream");
  const HostStreamOptions by_hand{.stepped = true};
  auto& stepped = static_cast<HostStream&>(
      engine.adopt_stream(std::make_unique<HostStream>(cpu(), Lane::compute, by_hand)));
  std::atomic<bool> issued = false;
  engine.push_on(stepped, [&](Stream&) { issued = true; }, {.mutate = {busy}});
  while (!issued) std::this_thread::yield();
  engine.push([] {}, {.mutate = {done}});
  engine.wait(done);  // from here on the only worker has issued the op on the stream, and is free
  const int code = in_child([&] {
    engine.wait(done);
    const bool fails = throws_error([&] { engine.wait(busy); });
    try {
      engine.wait(failed);
      return 1;
    } catch (const std::runtime_error&) {
    }
    return fails && engine.error_of(failed).exception && !engine.error_of(busy).exception ? 0 : 2;
  });
  CHECK(code == 0);
  while (!stepped.idle()) stepped.step();
  engine.wait(busy);
}

TEST_CASE(
    "a thread_local object may push, with a long access list too, when the thread's other objects are dead") {
  struct Late {
    Engine* engine = nullptr;
    const std::vector<Var>* vars = nullptr;
    std::atomic<int>* ran = nullptr;
    void push() const {
      Access access;
      for (const Var& var : *vars) access.mutate.add(var);
      engine->push([ran = ran] { ++*ran; }, access);
    }
    ~Late() {
      for (int i = 0; engine && i < 10; ++i) push();
    }
  };
  Engine engine({.scheduler = Scheduler::threaded, .workers = 2});
  std::vector<Var> vars;
  for (int i = 0; i < 100; ++i) vars.push_back(engine.new_var());
  std::atomic<int> ran = 0;
  for (int round = 0; round < 20; ++round) {
    std::thread([&] {
      // Constructed before the first push, and so destroyed after the thread_local objects that a push
      // creates.
      thread_local Late late;
      late.engine = &engine;
      late.vars = &vars;
      late.ran = &ran;
      late.push();
    }).join();
  }
  engine.wait_all();
  CHECK(ran == 20 * 11);
}

// Measures by the counter of op memory, since the memory of the whole process also depends on the system.
TEST_CASE("thousands of threads that push a few ops and end leave no memory behind") {
  constexpr int kThreads = test::kSanitized ? 2000 : 10'000, kAtOnce = 8, kOps = 5;
  constexpr std::size_t kChunk = 64 * 1024;
  Engine engine({.scheduler = Scheduler::threaded, .workers = 2});
  Var common = engine.new_var();
  std::atomic<int> ran = 0;
  const auto some_threads = [&](int count) {
    std::vector<std::thread> threads;
    for (int i = 0; i < count; ++i) {
      threads.emplace_back([&] {
        Var own = engine.new_var();
        for (int op = 0; op < kOps; ++op) engine.push([&] { ++ran; }, {.read = {common}, .mutate = {own}});
      });
    }
    for (std::thread& thread : threads) thread.join();
    engine.wait(common);
  };
  for (int i = 0; i < 50; ++i) some_threads(kAtOnce);
  engine.wait_all();
  const std::size_t before = detail::op_memory_resident();
  std::size_t most = before;
  int started = 50 * kAtOnce;
  for (; started < kThreads; started += kAtOnce) {
    some_threads(kAtOnce);
    engine.wait_all();
    most = std::max(most, detail::op_memory_resident());
  }
  CHECK(ran == started * kOps);
  // The pool of each thread that runs may hold one more chunk, and one may be on its way between pools; but
  // the pools of threads that ended must hold none.
  CHECK(most <= before + 3 * kAtOnce * kChunk);
}
