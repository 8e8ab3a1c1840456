// Priorities decide the order in which ready ops run.
#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/engine.h>

#include "schedulers.h"

using namespace heddle;
using heddle::test::on_every_scheduler;

namespace {

// An op that keeps the only worker busy until open(), so that everything pushed before open() is queued.
class Gate {
 public:
  explicit Gate(Engine& engine) {
    engine.push([this] {
      closed_ = true;
      while (!open_) std::this_thread::yield();
    });
    while (!closed_) std::this_thread::yield();
  }
  void open() { open_ = true; }

 private:
  std::atomic<bool> closed_ = false, open_ = false;
};

// Pushes `normal` ops of priority 0, and one op of the given priority after the first `before` of them.
// Returns the number of normal ops that run before that op.
int place_among(int normal, int before, int priority) {
  Engine engine({.workers = 1});
  int ran = 0, place = -1;  // not atomic, since the only worker runs one op at a time
  Gate gate(engine);
  for (int i = 0; i < normal; ++i) {
    if (i == before) engine.push([&] { place = ran; }, {.priority = priority});
    engine.push([&] { ++ran; });
  }
  if (before == normal) engine.push([&] { place = ran; }, {.priority = priority});
  gate.open();
  engine.wait_all();
  CHECK(ran == normal);
  return place;
}

}  // namespace

TEST_CASE("a late op of high priority overtakes a long queue, as far as its priority goes") {
  CHECK(place_among(2000, 2000, 1000) == 0);
  CHECK(place_among(2000, 2000, 0) == 2000);
  for (int priority : {1, 2, 5}) {
    CAPTURE(priority);
    // Repeated, since not the worker but the thread in wait_all sometimes runs the queue.
    for (int i = 0; i < 20; ++i) {
      const int overtaken = 2000 - place_among(2000, 2000, priority);
      CHECK(overtaken <= priority * kAgeing);
      CHECK(overtaken >= priority * kAgeing - 1);
    }
  }
}

TEST_CASE("an op of low priority lets a bounded number of later ones pass") {
  for (int priority : {-1, -3}) {
    CAPTURE(priority);
    const int passed = place_among(5000, 100, priority) - 100;
    CHECK(passed >= -priority * kAgeing - 1);
    // Up to 64 more, since the queue of normal ops is checked every 64 ops.
    CHECK(passed <= -priority * kAgeing + 64);
  }
  // An op of the lowest priority runs when no other op is ready.
  CHECK(place_among(100, 0, -kMostPriority) == 100);
}

TEST_CASE("ops of different priorities, all ready, run by priority; of one priority in push order") {
  Engine engine({.workers = 1});
  std::vector<int> ran;
  Gate gate(engine);
  for (int i = 0; i < 7; ++i) {
    for (int priority : {-2, 3, 0, 1, -1, 2}) {
      engine.push([&ran, value = 10 * priority + i] { ran.push_back(value); }, {.priority = priority});
    }
  }
  gate.open();
  engine.wait_all();
  std::vector<int> expected;
  for (int priority : {3, 2, 1, 0, -1, -2}) {
    for (int i = 0; i < 7; ++i) expected.push_back(10 * priority + i);
  }
  CHECK(ran == expected);
}

TEST_CASE("ops that become ready behind another are ranked too") {
  Engine engine({.workers = 1});
  Var var = engine.new_var();
  std::vector<int> ran;
  Gate gate(engine);
  engine.push([] {}, {.mutate = {var}});
  for (int priority : {0, 1, 2, 3}) {
    engine.push([&ran, priority] { ran.push_back(priority); }, {.read = {var}, .priority = priority});
  }
  gate.open();
  engine.wait_all();
  CHECK(ran == std::vector{3, 2, 1, 0});
}

TEST_CASE("neither low nor normal priority is starved by an endless stream") {
  for (int workers : {1, 2, 4}) {
    for (const auto& [stream, other] : {std::pair{0, -3}, std::pair{3, 0}, std::pair{2, -2}}) {
      CAPTURE(workers);
      CAPTURE(stream);
      Engine engine({.workers = workers});
      Var chain = engine.new_var();
      std::atomic<bool> stop = false;
      struct Again {
        Engine& engine;
        Var chain;
        std::atomic<bool>& stop;
        int priority;
        void operator()() const {
          if (!stop) engine.push(*this, {.mutate = {chain}, .priority = priority});
        }
      };
      std::thread pusher([&, stream = stream] {
        for (int i = 0; i < 2 * workers; ++i) {
          Var var = engine.new_var();
          engine.push(Again{engine, var, stop, stream}, {.mutate = {var}, .priority = stream});
        }
      });
      engine.push([&] { stop = true; }, {.priority = other});
      pusher.join();
      engine.wait_all();
      CHECK(stop);
    }
  }
}

TEST_CASE("a late op of high priority runs before a worker has entered what was pushed before it") {
  Engine engine({.workers = 1});
  std::atomic<int> ran = 0, left = 0;
  std::atomic<bool> stop = false;
  constexpr int kQueue = 100000;
  // The worker is in op 1000 when the urgent op is pushed, far from the end of the queue.
  for (int i = 0; i < kQueue; ++i) {
    engine.push([&] {
      ++ran;
      while (ran == 1000 && !stop) std::this_thread::yield();
    });
  }
  engine.push([&] { left = kQueue - ran; }, {.priority = 1000});
  stop = true;
  engine.wait_all();
  CHECK(left >= kQueue - 1001);
}

TEST_CASE("priorities change nothing but the order of ops that may run in any") {
  on_every_scheduler([](Engine& engine) {
    constexpr int kVars = 7, kOps = 3000;
    std::vector<Var> vars;
    std::vector<int> values(kVars, 1), expected(kVars, 1);
    for (int i = 0; i < kVars; ++i) vars.push_back(engine.new_var());
    for (int i = 0; i < kOps; ++i) {
      const int from = i * 5 % kVars, to = i * i % kVars;
      auto step = [=](std::vector<int>& data) { data[to] = data[to] * 3 + data[from] % 1000 + i; };
      auto wrap = [=](std::vector<int>& data) { step(data), data[to] %= 1000003; };
      engine.push([&values, wrap] { wrap(values); },
                  {.read = {vars[from], vars[to]}, .mutate = {vars[to]}, .priority = i % 11 - 5});
      wrap(expected);
    }
    engine.wait_all();
    CHECK(values == expected);
  });
}

TEST_CASE("many threads push and wait with priorities") {
  for (int workers : {1, 2, 4}) {
    Engine engine({.workers = workers});
    std::atomic<int> ran = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        Var var = engine.new_var();
        int count = 0;
        for (int i = 1; i <= 500; ++i) {
          engine.push(
              [&] {
                ++ran;
                ++count;
              },
              {.mutate = {var}, .priority = (i + t) % 5 - 2});
          if (i % 7 != 0) continue;
          engine.wait(var);
          CHECK(count == i);
        }
        engine.wait(var);
      });
    }
    for (auto& thread : threads) thread.join();
    CHECK(ran == 2000);
  }
}

TEST_CASE("a priority out of range is refused at the call, prepared ops keep theirs") {
  on_every_scheduler([](Engine& engine) {
    CHECK_THROWS_AS(engine.push([] {}, {.priority = kMostPriority + 1}), InvalidArgument);
    CHECK_THROWS_AS(engine.prepare([] {}, {.priority = -kMostPriority - 1}), InvalidArgument);
    engine.push([] {}, {.priority = kMostPriority});
    engine.push([] {}, {.priority = -kMostPriority});
    int ran = 0;
    Var var = engine.new_var();
    PreparedOp op = engine.prepare([&] { ++ran; }, {.mutate = {var}, .priority = 2});
    for (int i = 0; i < 10; ++i) engine.push(op);
    engine.wait_all();
    CHECK(ran == 10);
  });
}
