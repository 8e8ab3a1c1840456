#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <pthread.h>
#include <sys/types.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/engine.h>

#include "arguments.h"
#include "asleep.h"
#include "core/core.h"
#include "scheduler/threaded.h"
#include "schedulers.h"

using namespace heddle;
using namespace heddle::test;

TEST_CASE("an op may wait for what it pushes") {
  on_every_scheduler([](Engine& engine) {
    Var outer = engine.new_var(), inner = engine.new_var();
    int value = 0, seen = 0;
    engine.push(
        [&] {
          engine.push([&] { value = 5; }, {.mutate = {inner}});
          engine.wait(inner);
          seen = value;
        },
        {.mutate = {outer}});
    engine.wait(outer);
    CHECK(seen == 5);
  });
}

TEST_CASE("waits nested a hundred deep end, with one worker too") {
  on_every_scheduler([](Engine& engine) {
    std::vector<Var> vars;
    for (int i = 0; i < 100; ++i) vars.push_back(engine.new_var());
    std::vector<int> values(100, 0);
    struct Level {
      Engine& engine;
      std::vector<Var>& vars;
      std::vector<int>& values;
      void push(std::size_t depth) const {
        engine.push(
            [self = *this, depth] {
              if (depth + 1 == self.vars.size()) {
                self.values[depth] = 1;
                return;
              }
              self.push(depth + 1);
              self.engine.wait(self.vars[depth + 1]);
              self.values[depth] = self.values[depth + 1] + 1;
            },
            {.mutate = {vars[depth]}});
      }
    };
    Level{engine, vars, values}.push(0);
    engine.wait(vars[0]);
    CHECK(values[0] == 100);
  });
}

// Each wait must search only the ops that it needs: searching all ops would take minutes.
TEST_CASE("fuzz: many waits inside ops beside many others, and the same seed gives the same order") {
  constexpr int kOps = kSanitized ? 20'000 : 100'000;
  const auto order_of = [](std::uint64_t seed) {
    Engine engine({.scheduler = Scheduler::fuzz, .seed = seed});
    std::vector<Var> vars;
    for (int i = 0; i < 100; ++i) vars.push_back(engine.new_var());
    std::vector<int> order;
    for (int i = 0; i < kOps; ++i) {
      VarList read;
      for (int k = 0; k < 4; ++k) read.add(vars[static_cast<std::size_t>(i * 7 + k * 13) % 100]);
      engine.push(
          [&engine, &order, i] {
            order.push_back(i);
            if (i % 4 != 0) return;
            Var inner = engine.new_var();
            engine.push([&order, i] { order.push_back(-i); }, {.mutate = {inner}});
            engine.wait(inner);
          },
          {.read = read, .mutate = {vars[static_cast<std::size_t>(i * 31) % 100]}});
    }
    engine.wait_all();
    return order;
  };
  const std::vector<int> order = order_of(3);
  CHECK(order.size() == kOps + kOps / 4);
  CHECK(order == order_of(3));
  CHECK(order != order_of(4));
}

TEST_CASE(
    "fuzz: a wait inside an op for a long chain of ops runs its ops and, if they wait, what these need") {
  for (const std::uint64_t seed : {1u, 2u, 3u}) {
    Engine engine({.scheduler = Scheduler::fuzz, .seed = seed});
    Var start = engine.new_var(), outer = engine.new_var(), end = engine.new_var();
    int length = 0, nested = 0, others = 0, seen = 0;
    engine.push(
        [&] {
          for (int i = 0; i < 3000; ++i) engine.push([&] { ++others; }, {.read = {outer}});
          engine.push([&] { ++length; }, {.mutate = {start}});
          for (int i = 0; i < 20'000; ++i) {
            engine.push(
                [&, i] {
                  ++length;
                  if (i % 1000 != 0) return;
                  Var inner = engine.new_var();
                  for (int k = 0; k < 5; ++k)
                    engine.push([&] { ++nested; }, {.read = {inner}, .mutate = {inner}});
                  engine.wait(inner);
                },
                {.read = {start}, .mutate = {start, end}});
          }
          engine.wait(end);
          seen = length;
        },
        {.mutate = {outer}});
    engine.wait_all();
    CHECK(seen == 20'001);
    CHECK(nested == 100);
    CHECK(others == 3000);
  }
}

TEST_CASE("more waiting ops than workers, each for a common var that is produced last") {
  for (int workers : {1, 2, 4}) {
    Engine engine({.workers = workers});
    Var late = engine.new_var();
    std::atomic<int> seen = 0;
    std::atomic<bool> go = false;
    int value = 0;
    engine.push_async(
        [&](RunContext&, Completion done) {
          std::thread([&, moved = std::move(done)]() mutable {
            while (!go) std::this_thread::yield();
            value = 3;
            moved.done();
          }).detach();
        },
        {.mutate = {late}});
    for (int i = 0; i < 20; ++i) {
      engine.push([&] {
        engine.wait(late);
        seen += value;
      });
    }
    engine.push([&] { go = true; });  // runs although twenty ops wait inside
    engine.wait_all();
    CHECK(seen == 60);
  }
}

TEST_CASE("a wait for the op itself throws") {
  on_every_scheduler([](Engine& engine) {
    Var mine = engine.new_var();
    engine.push([&] { engine.wait(mine); }, {.mutate = {mine}});
    CHECK_THROWS_AS(engine.wait(mine), WouldDeadlock);
    engine.push([&] { engine.wait_all(); }, {.mutate = {mine}});
    CHECK_THROWS_AS(engine.wait(mine), WouldDeadlock);
  });
}

TEST_CASE("a wait for something that has to come after the op throws") {
  on_every_scheduler([](Engine& engine) {
    Var a = engine.new_var(), b = engine.new_var(), c = engine.new_var();
    engine.push(
        [&] {
          engine.push([] {}, {.read = {a}, .mutate = {b}});
          engine.push([] {}, {.read = {b}, .mutate = {c}});
          engine.wait(c);
        },
        {.mutate = {a}});
    CHECK_THROWS_AS(engine.wait(a), WouldDeadlock);
    CHECK_THROWS_AS(engine.wait(c), WouldDeadlock);
    engine.clear_error(a);
    engine.clear_error(b);
    engine.clear_error(c);
    engine.wait_all();
  });
}

TEST_CASE("a wait for something that has to overwrite what the op reads throws") {
  on_every_scheduler([](Engine& engine) {
    Var a = engine.new_var(), b = engine.new_var(), c = engine.new_var();
    bool refused = false;
    engine.push(
        [&] {
          engine.push([] {}, {.read = {a}});
          engine.push([] {}, {.mutate = {a, b}});
          try {
            engine.wait(b);
          } catch (const WouldDeadlock&) {
            refused = true;
          }
        },
        {.read = {a}, .mutate = {c}});
    engine.wait(c);
    engine.wait(b);
    CHECK(refused);
  });
}

TEST_CASE("two ops that wait for each other: one of them throws") {
  Engine engine({.workers = 2});
  Var a = engine.new_var(), b = engine.new_var();
  std::atomic<int> inside = 0, thrown = 0;
  auto cross = [&](const Var& other) {
    inside.fetch_add(1);
    while (inside.load() < 2) std::this_thread::yield();
    try {
      engine.wait(other);
    } catch (const WouldDeadlock&) {
      ++thrown;
      throw;
    }
  };
  for (int round = 0; round < 50; ++round) {
    inside = 0;
    thrown = 0;
    engine.push([&] { cross(b); }, {.mutate = {a}});
    engine.push([&] { cross(a); }, {.mutate = {b}});
    int poisoned = 0;
    for (const Var& var : {a, b}) {
      try {
        engine.wait(var);
      } catch (const WouldDeadlock&) {
        ++poisoned;
      }
    }
    CHECK(thrown >= 1);
    CHECK(poisoned >= 1);
    engine.clear_error(a);
    engine.clear_error(b);
    engine.wait_all();
  }
}

TEST_CASE("an op of one engine may wait for another engine's var") {
  Engine first({.workers = 1}), second({.workers = 1});
  Var a = first.new_var(), b = second.new_var(), extra = first.new_var();
  int value = 0, seen = 0;
  bool other = false;
  first.push(
      [&] {
        first.push([&] { other = true; }, {.mutate = {extra}});
        second.push(
            [&] {
              // Waits for an op of the first engine, whose only worker is inside the op that waits for this
              // one.
              first.wait(extra);
              value = 4;
            },
            {.mutate = {b}});
        second.wait(b);
        seen = value;
      },
      {.mutate = {a}});
  first.wait(a);
  CHECK(seen == 4);
  CHECK(other);
}

TEST_CASE("a wait sees what was pushed before it, not what comes after") {
  on_every_scheduler([](Engine& engine) {
    Var var = engine.new_var();
    int value = 0;
    for (int i = 1; i <= 100; ++i) {
      engine.push([&, i] { value = i; }, {.mutate = {var}});
      if (i % 10 == 0) {
        engine.wait(var);
        CHECK(value == i);
      }
    }
  });
}

TEST_CASE("many threads wait at once") {
  Engine engine({.workers = 2});
  Var var = engine.new_var();
  std::atomic<int> value = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) {
        const int before = value;
        engine.push([&] { ++value; }, {.read = {var}, .mutate = {var}});
        if (i % 3 == 0) engine.wait_all();
        engine.wait(var);
        CHECK(value > before);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(value == 4000);
}

TEST_CASE("who waits hears of an op, pushed by another thread, that completes what it waits for") {
  std::vector<EngineOptions> all{{.workers = 1}, {.workers = 2}};
  for (std::uint64_t seed = 0; seed < 20; ++seed) all.push_back({.scheduler = Scheduler::fuzz, .seed = seed});
  for (const EngineOptions& options : all) {
    for (const bool for_all : {false, true}) {
      CAPTURE(options.seed);
      Engine engine(options);
      Var var = engine.new_var();
      std::unique_ptr<Completion> last;
      std::atomic<bool> held = false;
      engine.push_async(
          [&](RunContext&, Completion done) {
            last = std::make_unique<Completion>(std::move(done));
            held = true;
          },
          {.mutate = {var}});
      std::atomic<pid_t> id = 0;
      std::thread waiter([&] {
        id = gettid();
        for_all ? engine.wait_all() : engine.wait(var);
      });
      while (!held || id == 0 || !is_asleep(id)) std::this_thread::yield();
      engine.push([&] { last->done(); });
      waiter.join();
      engine.wait_all();
    }
  }
}

TEST_CASE("an op on the thread that waits for it has a slot again before it goes on") {
  using namespace std::chrono_literals;
  const auto here = std::this_thread::get_id();
  int helped = 0;
  for (int round = 0; round < 1000 && helped < 10; ++round) {
    Engine engine({.workers = 1});
    Var var = engine.new_var(), inner = engine.new_var();
    std::unique_ptr<Completion> last;
    std::atomic<bool> gone_on = false;
    bool together = false;
    const auto long_op = [&] {
      last->done();
      const auto end = std::chrono::steady_clock::now() + 2ms;
      while (std::chrono::steady_clock::now() < end) together |= gone_on;
    };
    engine.push(
        [&] {
          helped += std::this_thread::get_id() == here;
          engine.push_async(
              [&](RunContext&, Completion done) {
                last = std::make_unique<Completion>(std::move(done));
                engine.push(long_op);
              },
              {.mutate = {inner}});
          engine.wait(inner);
          gone_on = true;
        },
        {.mutate = {var}});
    engine.wait(var);
    engine.wait_all();
    const auto& scheduler = static_cast<const detail::ThreadedScheduler&>(engine.core().scheduler());
    CHECK((!together || scheduler.slot_timeouts() > 0));
  }
  CHECK(helped > 0);
}

TEST_CASE("an op holds a lock while it waits, and all slots are taken by ops that want it") {
  for (int workers : {1, 2}) {
    Engine engine({.workers = workers});
    Var late = engine.new_var();
    std::mutex mutex;
    std::unique_ptr<Completion> completion;
    std::atomic<bool> issued = false, locked = false;
    std::atomic<int> inside = 0;
    int sum = 0;
    engine.push_async(
        [&](RunContext&, Completion done) {
          completion = std::make_unique<Completion>(std::move(done));
          issued = true;
        },
        {.mutate = {late}});
    while (!issued) std::this_thread::yield();
    engine.push([&] {
      std::lock_guard guard(mutex);
      locked = true;
      engine.wait(late);
      engine.wait(late);
      ++sum;
    });
    while (!locked) std::this_thread::yield();
    for (int i = 0; i < workers; ++i) {
      engine.push([&] {
        ++inside;
        std::lock_guard guard(mutex);
        ++sum;
      });
    }
    while (inside < workers) std::this_thread::yield();
    completion->done();
    engine.wait_all();
    CHECK(sum == workers + 1);
  }
}

namespace {

// An engine that was shut down but not destroyed, which is the state of the default engine at exit.
struct ShutDown {
  explicit ShutDown(const EngineOptions& options) : engine(*::new (place) Engine(options)) {}
  // Not the engine's destructor, which would shut the engine down again.
  ~ShutDown() { engine.core().release(); }
  ShutDown(const ShutDown&) = delete;
  ShutDown& operator=(const ShutDown&) = delete;

  alignas(Engine) std::byte place[sizeof(Engine)];
  Engine& engine;
};

template <class F> void on_every_shut_down(F&& test) {
  for (const EngineOptions& options : kSchedulers) {
    CAPTURE(static_cast<int>(options.scheduler));
    ShutDown down(options);
    int value = 0;
    Var var = down.engine.new_var();
    down.engine.push([&] { ++value; }, {.mutate = {var}});
    down.engine.core().shut_down();
    CHECK(value == 1);
    test(down.engine, var);
  }
}

}  // namespace

namespace {

// While an object exists no thread can be created: it makes the default stack size too large.
class NoThreads {
 public:
  NoThreads() {
    pthread_getattr_default_np(&before_);
    pthread_attr_t huge = before_;
    pthread_attr_setstacksize(&huge, std::size_t{1} << 46);
    pthread_setattr_default_np(&huge);
  }
  ~NoThreads() { pthread_setattr_default_np(&before_); }
  NoThreads(const NoThreads&) = delete;
  NoThreads& operator=(const NoThreads&) = delete;

 private:
  pthread_attr_t before_;
};

}  // namespace

TEST_CASE("a wait inside an op needs no new thread while another worker is left; the last one is refused") {
  Engine engine({.workers = 2});
  Var outer = engine.new_var(), inner = engine.new_var(), second = engine.new_var();
  std::optional<Completion> held;
  std::atomic<pid_t> waits = 0;
  bool has_waited = false, refused = false;
  engine.push_async([&](RunContext&, Completion done) { held.emplace(std::move(done)); },
                    {.mutate = {inner}});
  engine.core().scheduler().enter_submitted();
  const NoThreads none;
  engine.push(
      [&] {
        waits = gettid();
        engine.wait(inner);
        has_waited = true;
      },
      {.mutate = {outer}});
  engine.push(
      [&] {
        while (waits == 0 || !is_asleep(waits)) std::this_thread::yield();
        try {
          engine.wait(inner);
        } catch (const Error&) {
          refused = true;
        }
        held->done();
      },
      {.mutate = {second}});
  // Not by wait(), which would run the ops on this thread.
  while (!engine.wait_until(second, std::chrono::steady_clock::now() + std::chrono::hours(1))) {
  }
  engine.wait(outer);
  CHECK(has_waited);
  CHECK(refused);
}

TEST_CASE("an engine that was shut down may be waited for, also inside another engine's op") {
  on_every_shut_down([](Engine& down, const Var& var) {
    down.wait(var);
    down.wait_all();
    Engine other({.scheduler = Scheduler::threaded, .workers = 1});
    Var out = other.new_var();
    bool went_on = false;
    other.push(
        [&] {
          down.wait(var);
          down.wait_all();
          went_on = true;
        },
        {.mutate = {out}});
    other.wait(out);
    CHECK(went_on);
    CHECK_THROWS_AS(down.push([] {}, {.mutate = {var}}), Error);
  });
}

TEST_CASE("many threads wait at once for an engine that was shut down, and let go of its vars") {
  constexpr int kThreads = 6, kVars = 400;
  for (int round = 0; round < 3; ++round) {
    ShutDown down({.scheduler = Scheduler::threaded, .workers = 2});
    std::vector<std::vector<Var>> vars(kThreads);
    for (std::vector<Var>& own : vars) {
      for (int i = 0; i < kVars; ++i) own.push_back(down.engine.new_var());
    }
    Var common = down.engine.new_var();
    down.engine.core().shut_down();
    std::atomic<int> waits = 0;
    std::vector<std::thread> threads;
    for (std::vector<Var>& own : vars) {
      threads.emplace_back([&] {
        for (Var& var : own) {
          down.engine.wait(var);
          var = Var();
          down.engine.wait(common);
          ++waits;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(waits == kThreads * kVars);
    // If the release of a var was submitted but never entered, the var would still be registered.
    common = Var();
    int left = 0;
    down.engine.core().vars.for_each([&](const detail::VarState&) { ++left; });
    CHECK(left == 0);
  }
}
