// Ops that use libraries with their own threads: all together never use more threads than the engine has
// workers.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>

#include <heddle/engine.h>
#include <heddle/parallel.h>

#include "scheduler/threaded.h"

using namespace heddle;

namespace {

// Counts the threads that hold an Inside at the same time, and the maximum of that number.
class Crowd {
 public:
  class Inside {
   public:
    explicit Inside(Crowd& crowd) : crowd_(crowd) {
      const int now = crowd_.inside_.fetch_add(1) + 1;
      for (int most = crowd_.most_; now > most && !crowd_.most_.compare_exchange_weak(most, now);) {
      }
    }
    ~Inside() { crowd_.inside_.fetch_sub(1); }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;

   private:
    Crowd& crowd_;
  };
  int most() const { return most_; }

 private:
  std::atomic<int> inside_{0}, most_{0};
};

std::uint64_t work(std::int64_t begin, std::int64_t end) {
  std::uint64_t sum = 0;
  for (std::int64_t i = begin; i < end; ++i) sum += static_cast<std::uint64_t>(i * i) % 7;
  return sum;
}

constexpr std::int64_t kCount = 20000;

}  // namespace

TEST_CASE("bodies of tbb::parallel_for inside ops: never more at once than workers, however many ops") {
  for (int workers : {1, 2, 3}) {
    CAPTURE(workers);
    Engine engine({.workers = workers});
    Crowd crowd;
    std::vector<std::uint64_t> sums(64, 0);
    for (std::size_t i = 0; i < sums.size(); ++i) {
      engine.push([&, i] {
        std::atomic<std::uint64_t> sum = 0;
        tbb::parallel_for(tbb::blocked_range<std::int64_t>(0, kCount, 100), [&](const auto& range) {
          const Crowd::Inside inside(crowd);
          sum += work(range.begin(), range.end());
        });
        sums[i] = sum;
      });
    }
    engine.wait_all();
    CHECK(crowd.most() >= 1);
    CHECK(crowd.most() <= workers);
    CHECK(std::count(sums.begin(), sums.end(), work(0, kCount)) == 64);
  }
}

TEST_CASE("a loop of TBB inside an op stays on that op's thread; heddle::parallel_for shares the workers") {
  Engine engine({.workers = 3});
  Var var = engine.new_var();
  std::atomic<int> strangers = 0;
  engine.push(
      [&] {
        const auto self = std::this_thread::get_id();
        tbb::parallel_for(0, 1000, [&](int) { strangers += std::this_thread::get_id() != self; });
      },
      {.mutate = {var}});
  engine.wait(var);
  CHECK(strangers == 0);
  std::atomic<int> together = 0;
  engine.push(
      [&] {
        parallel_for(3, 1, [&](std::int64_t, std::int64_t) {
          ++together;
          while (together < 3) std::this_thread::yield();
        });
      },
      {.mutate = {var}});
  engine.wait(var);
  CHECK(together == 3);
}

TEST_CASE(
    "loops of both kinds, nested, with waits inside: never more threads than workers, nothing on top of an "
    "op") {
  constexpr int kWorkers = 3;
  Engine engine({.workers = kWorkers});
  Crowd crowd;
  std::vector<Var> vars;
  for (int i = 0; i < 8; ++i) vars.push_back(engine.new_var());
  static thread_local int depth = 0;  // number of ops that run on top of each other on this thread
  std::atomic<int> on_top = 0;
  for (std::size_t i = 0; i < 64; ++i) {
    engine.push(
        [&, i] {
          on_top += depth++ > 0;
          Var inner = engine.new_var();
          engine.push([] { work(0, 1000); }, {.mutate = {inner}});
          if (i % 4 == 0) engine.wait(inner);
          parallel_for(8, 1, [&](std::int64_t, std::int64_t) {
            tbb::parallel_for(0, 20, [&](int chunk) {
              const Crowd::Inside inside(crowd);
              work(0, 100 * chunk);
            });
          });
          --depth;
        },
        {.mutate = {vars[i % vars.size()]}});
  }
  engine.wait_all();
  // Each slot timeout allows one more thread: if nothing moves for 20 ms, as on a stalled machine, the engine
  // assumes that the threads that hold slots are in a deadlock.
  const auto& scheduler = static_cast<const detail::ThreadedScheduler&>(engine.core().scheduler());
  CHECK(crowd.most() <= kWorkers + static_cast<int>(scheduler.slot_timeouts()));
  CHECK(on_top == 0);
}
