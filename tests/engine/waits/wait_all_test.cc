// wait_all returns as soon as the last op has ended that was pushed before it, whichever thread ran that op
// and whatever that thread does next.
#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <sys/types.h>
#include <thread>
#include <unistd.h>

#include <doctest/doctest.h>

#include <heddle/engine.h>
#include <heddle/parallel.h>

#include "asleep.h"
#include "scheduler/threaded.h"

using namespace heddle;

namespace {

// Calls wait_all on another thread. The call does not wait for ops that are pushed after the constructor.
class WaitAll {
 public:
  explicit WaitAll(Engine& engine)
      : thread_([&] {
          id_ = ::gettid();
          engine.wait_all();
          back_ = true;
        }) {
    const auto& scheduler = static_cast<const detail::ThreadedScheduler&>(engine.core().scheduler());
    while (!scheduler.in_wait_all() && !back_) std::this_thread::yield();
    // Waits until the thread sleeps, in most cases. Bounded, since on a busy machine a yield may cost
    // milliseconds.
    for (int i = 0; i < 1000 && !test::is_asleep(id_); ++i) std::this_thread::yield();
  }
  ~WaitAll() { thread_.join(); }
  bool back() const { return back_; }

 private:
  std::atomic<bool> back_ = false;
  std::atomic<pid_t> id_ = 0;
  std::thread thread_;
};

constexpr int kRounds = 100;

void await(const std::atomic<bool>& flag) {
  while (!flag) std::this_thread::yield();
}

}  // namespace

TEST_CASE("wait_all: the last op is run by a thread that waits for it") {
  for (int round = 0; round < kRounds; ++round) {
    Engine engine({.workers = 2});
    Var var = engine.new_var();
    std::atomic<bool> inside = false, go = false;
    std::thread waiter([&] {
      engine.push(
          [&] {
            inside = true;
            await(go);
          },
          {.mutate = {var}});
      engine.wait(var);
    });
    await(inside);
    {
      const WaitAll all(engine);
      go = true;
    }
    waiter.join();
    CHECK(go);
  }
}

TEST_CASE("wait_all: who ran the last op goes on with one that ends later than wait_all") {
  for (int round = 0; round < kRounds; ++round) {
    Engine engine({.workers = 2});
    std::atomic<bool> inside = false, go = false;
    std::atomic<int> later = 0;
    engine.push([&] {
      inside = true;
      await(go);
    });
    await(inside);
    std::optional<WaitAll> all(std::in_place, engine);
    // One op for each of the workers, and one for the thread in wait_all, in case it runs ops.
    for (int i = 0; i < 3; ++i) {
      engine.push([&] {
        while (!all->back()) std::this_thread::yield();
        ++later;
      });
    }
    go = true;
    while (!all->back()) std::this_thread::yield();
    engine.wait_all();
    all.reset();
    CHECK(later == 3);
  }
}

TEST_CASE("wait_all: who ran the last op joins a loop that ends later than wait_all") {
  for (int round = 0; round < kRounds; ++round) {
    Engine engine({.workers = 3});
    std::atomic<bool> inside = false, go = false;
    engine.push([&] {
      inside = true;
      await(go);
    });
    await(inside);
    std::optional<WaitAll> all(std::in_place, engine);
    std::atomic<int> chunks = 0;
    engine.push([&] {
      parallel_for(4, 1, [&](std::int64_t, std::int64_t) {
        ++chunks;
        while (!all->back()) std::this_thread::yield();
      });
    });
    while (chunks == 0) std::this_thread::yield();
    go = true;
    while (!all->back()) std::this_thread::yield();
    engine.wait_all();
    all.reset();
    CHECK(chunks == 4);
  }
}

TEST_CASE("wait_all: the last op is completed by one that ends later than wait_all") {
  for (int round = 0; round < kRounds; ++round) {
    Engine engine({.workers = 1});
    std::unique_ptr<Completion> completion;
    std::atomic<bool> issued = false;
    engine.push_async([&](RunContext&, Completion done) {
      completion = std::make_unique<Completion>(std::move(done));
      issued = true;
    });
    await(issued);
    std::optional<WaitAll> all(std::in_place, engine);
    engine.push([&] {
      completion->done();
      while (!all->back()) std::this_thread::yield();
    });
    while (!all->back()) std::this_thread::yield();
    engine.wait_all();
    all.reset();
    CHECK(issued);
  }
}

TEST_CASE("wait_all: the last op was run on top of one that ends later than wait_all") {
  for (int round = 0; round < kRounds; ++round) {
    Engine engine({.workers = 1});
    Var var = engine.new_var();
    std::unique_ptr<Completion> completion;
    std::atomic<bool> issued = false, inside = false, go = false;
    engine.push_async(
        [&](RunContext&, Completion done) {
          completion = std::make_unique<Completion>(std::move(done));
          issued = true;
        },
        {.mutate = {var}});
    await(issued);
    engine.push([] {}, {.mutate = {var}});
    std::optional<WaitAll> all(std::in_place, engine);
    engine.push([&] {
      inside = true;
      await(go);
      completion->done();
      engine.wait(var);
      while (!all->back()) std::this_thread::yield();
    });
    await(inside);
    go = true;
    while (!all->back()) std::this_thread::yield();
    engine.wait_all();
    all.reset();
    CHECK(go);
  }
}
