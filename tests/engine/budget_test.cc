// Bounds on the number and the bytes of ops in flight. A push waits while there is no room.
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <optional>
#include <semaphore>
#include <stdexcept>
#include <sys/types.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/engine.h>
#include <heddle/interrupt_check.h>

#include "schedulers.h"
#include "waits/asleep.h"

using namespace heddle;

namespace {

template <class F> void on_bounded(std::size_t max_ops, std::size_t max_bytes, F&& test) {
  for (EngineOptions options : {EngineOptions{.scheduler = Scheduler::naive}, EngineOptions{.workers = 1},
                                EngineOptions{.workers = 2}, EngineOptions{.workers = 4},
                                EngineOptions{.scheduler = Scheduler::fuzz, .seed = 5}}) {
    options.max_ops = max_ops;
    options.max_bytes = max_bytes;
    CAPTURE(static_cast<int>(options.scheduler));
    CAPTURE(options.workers);
    Engine engine(options);
    test(engine);
  }
}

// Counts the closures that the engine holds and the bytes declared for them, with the maximum of each.
struct Flight {
  std::atomic<std::int64_t> ops = 0, bytes = 0, most_ops = 0, most_bytes = 0, ran = 0;
  static void raise(std::atomic<std::int64_t>& most, std::int64_t value) {
    for (std::int64_t old = most; old < value && !most.compare_exchange_weak(old, value);) {
    }
  }
  void begins(std::int64_t size) {
    raise(most_ops, ++ops);
    raise(most_bytes, bytes += size);
  }
  void ends(std::int64_t size) {
    --ops;
    bytes -= size;
  }
};

// A closure that a Flight counts, if it is a copy: the push copies the closure into the op's memory, where
// the copy lives until the op has ended.
struct Counted {
  Flight& flight;
  std::int64_t size = 0;
  bool copy = false;
  Counted(Flight& of, std::int64_t bytes) : flight(of), size(bytes) {}
  Counted(const Counted& other) : flight(other.flight), size(other.size), copy(true) { flight.begins(size); }
  ~Counted() {
    if (copy) flight.ends(size);
  }
  void operator()() const { ++flight.ran; }
};

template <class F> void on_threads(int count, F&& body) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back([&body, i] { body(i); });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

TEST_CASE("eight threads never have more ops in flight than the bound") {
  for (std::size_t bound : {1, 2, 7, 100}) {
    CAPTURE(bound);
    on_bounded(bound, 0, [&](Engine& engine) {
      Flight flight;
      std::vector<Var> vars{engine.new_var(), engine.new_var(), engine.new_var()};
      on_threads(8, [&](int thread) {
        for (int i = 0; i < 300; ++i) {
          Counted op(flight, 0);
          engine.push(op,
                      i % 2 ? Access{.mutate = {vars[static_cast<std::size_t>(i + thread) % 3]}} : Access{});
        }
      });
      engine.wait_all();
      CHECK(flight.ran == 2400);
      CHECK(flight.ops == 0);
      CHECK(flight.most_ops <= static_cast<std::int64_t>(bound));
    });
  }
}

TEST_CASE("eight threads never have more bytes in flight than the bound, but for one op that is larger") {
  constexpr std::int64_t kBound = 1000;
  on_bounded(20, kBound, [&](Engine& engine) {
    Flight flight;
    PreparedOp prepared = engine.prepare([&] { ++flight.ran; }, {.bytes = 100});
    on_threads(8, [&](int thread) {
      for (int i = 0; i < 200; ++i) {
        const std::int64_t size = (i * 7 + thread) % 5 * 100 + (i % 50 == 0 ? 600 : 0);
        Counted op(flight, size);
        engine.push(op, {.bytes = static_cast<std::size_t>(size)});
        if (i % 10 == 0) engine.push(prepared);
      }
    });
    engine.wait_all();
    CHECK(flight.ran == 8 * 220);
    CHECK(flight.bytes == 0);
    CHECK(flight.most_bytes <= kBound);
    CHECK(flight.most_ops <= 20);
    Counted huge(flight, 5 * kBound);
    for (int i = 0; i < 3; ++i) {
      engine.push(huge, {.bytes = 5 * kBound});
      // An op that declares no bytes, between ops that exceed the bound alone.
      engine.push(Counted(flight, 0));
    }
    engine.wait_all();
    CHECK(flight.most_bytes == 5 * kBound);  // ops that exceed the bound run one at a time
    CHECK(flight.ran == 8 * 220 + 6);
  });
}

TEST_CASE("a large op has its turn though small ones keep coming") {
  for (int workers : {1, 2}) {
    Engine engine({.workers = workers, .max_bytes = 100});
    std::atomic<bool> stop = false;
    std::atomic<int> small = 0;
    std::thread pusher([&] {
      on_threads(4, [&](int) {
        while (!stop) engine.push([&] { ++small; }, {.bytes = 10});
      });
    });
    while (small < 100) std::this_thread::yield();
    engine.push([&] { stop = true; }, {.bytes = 100});
    pusher.join();
    engine.wait_all();
    CHECK(stop);
  }
}

TEST_CASE("a push inside an op never waits, also an op of another engine") {
  on_bounded(1, 10, [](Engine& engine) {
    Var var = engine.new_var();
    int ran = 0, nested = 0;
    engine.push(
        [&] {
          for (int i = 0; i < 100; ++i) engine.push([&] { ++nested; }, {.mutate = {var}, .bytes = 7});
          engine.wait(var);
          ran = nested;
        },
        {.bytes = 10});
    engine.push([] {}, {.bytes = 10});  // has no room until the ops before it have ended
    CHECK(ran == 100);
    engine.wait_all();

    Engine outer({.workers = 1});
    Var held = engine.new_var();
    std::shared_ptr<Completion> last;
    std::atomic<bool> holds = false;
    // On another thread, since under `naive` the push returns only when the op has ended.
    std::thread pusher([&] {
      engine.push_async(
          [&](RunContext&, Completion done) {
            last = std::make_shared<Completion>(std::move(done));
            holds = true;
          },
          {.mutate = {held}});
      if (engine.options().scheduler == Scheduler::fuzz) engine.wait(held);
    });
    while (!holds) std::this_thread::yield();
    outer.push([&] {
      if (engine.options().scheduler != Scheduler::naive) {
        for (int i = 0; i < 10; ++i) engine.push([&] { ++ran; }, {.mutate = {var}});
      }
      last->done();
    });
    outer.wait_all();
    pusher.join();
    engine.wait_all();
    CHECK(ran == (engine.options().scheduler == Scheduler::naive ? 100 : 110));
  });
}

TEST_CASE("no wake-up is lost with the tightest of bounds") {
  for (std::size_t bound : {1, 2}) {
    for (int round = 0; round < 30; ++round) {
      Engine engine({.workers = 1 + round % 3, .max_ops = bound, .max_bytes = 3});
      std::atomic<int> ran = 0;
      on_threads(1 + round % 4, [&](int thread) {
        for (int i = 0; i < 200; ++i) {
          engine.push([&] { ++ran; }, {.bytes = static_cast<std::size_t>(i + thread) % 5});
        }
      });
      engine.wait_all();
      CHECK(ran == 200 * (1 + round % 4));
    }
  }
}

TEST_CASE("who waits for room that an op not yet pushed has, goes on once it is") {
  struct PausesInCopy {
    std::atomic<bool>& paused;
    const std::atomic<bool>& go_on;
    PausesInCopy(std::atomic<bool>& tell, const std::atomic<bool>& until) : paused(tell), go_on(until) {}
    PausesInCopy(const PausesInCopy& other) : paused(other.paused), go_on(other.go_on) {
      // By now the engine has reserved room for the op, since it does that before it copies the closure.
      paused = true;
      while (!go_on) std::this_thread::yield();
    }
    void operator()() const {}
  };
  std::vector<EngineOptions> all{{.workers = 1}, {.workers = 2}};
  for (std::uint64_t seed = 0; seed < 30; ++seed) all.push_back({.scheduler = Scheduler::fuzz, .seed = seed});
  for (EngineOptions options : all) {
    CAPTURE(options.seed);
    options.max_ops = 1;
    Engine engine(options);
    std::atomic<bool> paused = false, go_on = false;
    std::thread first([&] {
      const PausesInCopy op(paused, go_on);
      engine.push(op);
    });
    while (!paused) std::this_thread::yield();
    std::atomic<pid_t> id = 0;
    std::atomic<int> ran = 0;
    std::thread second([&] {
      id = gettid();
      engine.push([&] { ++ran; });
    });
    while (id == 0 || !test::is_asleep(id)) std::this_thread::yield();
    go_on = true;
    first.join();
    second.join();
    engine.wait_all();
    CHECK(ran == 1);
  }
}

TEST_CASE("ops that fail, are skipped, cancelled, dropped or never pushed give their room back") {
  struct CannotCopy {
    CannotCopy() = default;
    CannotCopy(const CannotCopy&) { throw std::runtime_error("no copy"); }
    void operator()() const {}
  };
  on_bounded(2, 10, [](Engine& engine) {
    Group group;
    group.cancel();
    std::atomic<int> refused = 0;
    on_threads(4, [&](int) {
      Var a = engine.new_var(), b = engine.new_var();
      CannotCopy cannot;
      for (int i = 0; i < 50; ++i) {
        engine.push([] { throw std::logic_error("expected"); }, {.mutate = {a}, .bytes = 10});
        engine.push([] {}, {.read = {a}, .mutate = {b}, .bytes = 10});
        engine.push([] {}, {.mutate = {a}, .group = group, .bytes = 3});
        engine.push_async([](RunContext&, Completion) {}, {.mutate = {b}, .bytes = 9});
        engine.push_async([](RunContext&, Completion done) { done.done(); }, {.read = {a}, .bytes = 4});
        try {
          engine.push(cannot, {.bytes = 10});
        } catch (const std::runtime_error&) {
          ++refused;
        }
      }
    });
    CHECK(refused == 200);
    CHECK_THROWS_AS(engine.wait_all(), AggregateError);
    int ran = 0;
    engine.push([&] { ++ran; }, {.bytes = 10});
    engine.wait_all();
    CHECK(ran == 1);
  });
}

TEST_CASE("wait_all and wait go on while others wait for room") {
  on_bounded(3, 0, [](Engine& engine) {
    std::atomic<int> ran = 0;
    std::atomic<bool> stop = false;
    std::thread pushers([&] {
      on_threads(3, [&](int) {
        while (!stop) engine.push([&] { ++ran; });
      });
    });
    Var var = engine.new_var();
    int value = 0;
    for (int i = 1; i <= 30; ++i) {
      engine.push([&] { ++value; }, {.mutate = {var}});
      if (i % 3 == 0) {
        engine.wait_all();
      } else {
        engine.wait(var);
      }
      CHECK(value == i);
    }
    stop = true;
    pushers.join();
    engine.wait_all();  // waits for the pushers' last ops, which use `ran`
  });
}

TEST_CASE("bounds from the environment") {
  setenv("HEDDLE_MAX_OPS", "12", 1);
  setenv("HEDDLE_MAX_BYTES", "5000000000", 1);
  EngineOptions options = EngineOptions::from_environment();
  CHECK(options.max_ops == 12);
  CHECK(options.max_bytes == 5000000000u);
  for (const char* bad : {"-1", "many", "1.5", "99999999999999999999999"}) {
    setenv("HEDDLE_MAX_OPS", bad, 1);
    CHECK_THROWS_AS(EngineOptions::from_environment(), InvalidArgument);
  }
  unsetenv("HEDDLE_MAX_OPS");
  unsetenv("HEDDLE_MAX_BYTES");
  options = EngineOptions::from_environment();
  CHECK(options.max_ops == 0);
  CHECK(options.max_bytes == 0);
}

TEST_CASE("a push that waits for room ends with the exception of the thread's check, and leaves no trace") {
  Engine engine({.scheduler = Scheduler::threaded, .workers = 1, .max_ops = 1});
  std::optional<Completion> held;
  std::binary_semaphore started{0};
  engine.push_async([&](RunContext&, Completion completion) {
    held.emplace(std::move(completion));
    started.release();
  });
  started.acquire();
  static thread_local int checks;
  checks = 0;
  set_interrupt_check([] {
    if (++checks == 2) throw std::runtime_error("given up");
  });
  bool ran = false;
  CHECK_THROWS_WITH_AS(engine.push([&] { ran = true; }), "given up", std::runtime_error);
  CHECK(checks == 2);
  held->done();
  engine.push([] {});  // finds room: the push that failed has released what it had reserved
  set_interrupt_check(nullptr);
  engine.wait_all();
  CHECK_FALSE(ran);
}
