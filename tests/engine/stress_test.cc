// Far more workers than cores, and an engine that is destroyed while it still has errors, cancelled groups,
// waits inside ops and ops that other threads complete.
#include <array>
#include <atomic>
#include <deque>
#include <mutex>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/engine.h>
#include <heddle/group.h>

#include "arguments.h"
#include "elsewhere.h"

using namespace heddle;
using namespace heddle::test;

namespace {

// What one thread pushes: ops on vars of its own and on a common var. Counts for each of its vars the ops
// that must run.
class Pusher {
 public:
  static constexpr std::size_t kVars = 4;

  Pusher(Engine& engine, Elsewhere& elsewhere, const Var& common, std::uint64_t seed)
      : engine_(engine), ready_without_slot_(elsewhere), common_(common), random_(seed) {
    for (Var& var : vars_) var = engine.new_var();
    given_up_.cancel();
  }

  void push_all(int ops) {
    for (int i = 0; i < ops; ++i) push_one(random_() % kVars);
    doomed_.cancel();
  }
  bool all_counted() const { return values_ == expected_ && failures_ == failures_seen_; }
  int ran_given_up() const { return ran_given_up_; }

 private:
  void push_one(std::size_t at) {
    const Var& var = vars_[at];
    switch (random_() % 8) {
      case 0:
        return push_failure();
      case 1:
        return push_doomed();
      case 2:
        ++expected_[at];
        return engine_.push_async(
            [this, at](RunContext&, Completion completion) {
              ++values_[at];
              ready_without_slot_.take(std::move(completion));
            },
            {.read = {common_}, .mutate = {var}});
      case 3:
        ++expected_[at];
        return engine_.push([this, at] { count_inside(at); }, {.mutate = {var}});
      case 4:
        if (random_() % 8 == 0) engine_.wait(var);
        return;
      case 5:
        ++expected_[at];
        return engine_.push([this, at] { ++values_[at]; },
                            {.mutate = {var}, .priority = static_cast<int>(random_() % 7) - 3});
      case 6:
        expected_[at] += 2;
        engine_.push([this, at] { ++values_[at]; }, {.mutate = {var}});
        return engine_.push([this, at] { ++values_[at]; }, {.read = {common_}, .mutate = {var}});
      default:
        ++expected_[at];
        return engine_.push([this, at] { ++values_[at]; }, {.mutate = {var, common_}});
    }
  }

  // Pushes an op that fails, and an op that waits for its var and so sees the error: unseen errors would be
  // logged.
  void push_failure() {
    const Var var = engine_.new_var();
    ++failures_;
    engine_.push([] { throw std::runtime_error("expected"); }, {.mutate = {var}});
    engine_.push([this, var] {
      try {
        engine_.wait(var);
      } catch (const std::runtime_error&) {
        ++failures_seen_;
      }
    });
  }

  // Pushes an op of doomed_, which runs only if it starts before doomed_ is cancelled, and an op of
  // given_up_, which must not run.
  void push_doomed() {
    const Var var = engine_.new_var();
    engine_.push([] {}, {.mutate = {var}, .group = doomed_});
    engine_.push([this] { ++ran_given_up_; }, {.read = {var}, .group = given_up_});
  }

  void count_inside(std::size_t at) {
    const Var inner = engine_.new_var();
    int sum = 0;
    for (int i = 0; i < 3; ++i) engine_.push([&sum] { ++sum; }, {.mutate = {inner}});
    engine_.wait(inner);
    values_[at] += sum / 3;
  }

  Engine& engine_;
  Elsewhere& ready_without_slot_;
  const Var common_;
  std::mt19937_64 random_;
  Group doomed_, given_up_;
  std::array<Var, kVars> vars_;
  // values_[i]: how many ops that mutate vars_[i] have run; expected_[i]: how many must run.
  std::array<int, kVars> values_{}, expected_{};
  int failures_ = 0;
  std::atomic<int> failures_seen_ = 0, ran_given_up_ = 0;
};

}  // namespace

// The argument --stress-rounds=1000 makes a long run.
TEST_CASE(
    "an engine with more workers than cores ends while errors, cancelled groups and waits are under way") {
  constexpr std::size_t kThreads = 4;
  constexpr int kOps = 150;
  const auto rounds = argument("stress-rounds", 4);
  for (long long round = 0; round < rounds; ++round) {
    CAPTURE(round);
    Elsewhere elsewhere([](Completion& completion) { completion.done(); });
    std::deque<Pusher> pushers;
    {
      EngineOptions options{.scheduler = Scheduler::threaded, .workers = round % 2 == 0 ? 16 : 32};
      if (round % 3 == 0) options.max_ops = 20;
      Engine engine(options);
      const Var common = engine.new_var();
      for (std::size_t i = 0; i < kThreads; ++i)
        pushers.emplace_back(engine, elsewhere, common, static_cast<std::uint64_t>(round) * kThreads + i);
      std::vector<std::thread> threads;
      for (Pusher& pusher : pushers) threads.emplace_back([&pusher] { pusher.push_all(kOps); });
      for (std::thread& thread : threads) thread.join();
    }
    for (const Pusher& pusher : pushers) {
      CHECK(pusher.all_counted());
      CHECK(pusher.ran_given_up() == 0);
    }
  }
}
