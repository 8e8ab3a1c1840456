// wait_bench on Heddle.
#include <array>
#include <stdexcept>

#include <heddle/engine.h>

#include "engine/wait_peer.h"
#include "support/support.h"

namespace heddle::bench {

namespace {

class HeddleWaits : public WaitPeer {
 public:
  explicit HeddleWaits(int workers) : engine_(options(workers)) {}

  double step_wait(int steps) override {
    std::array<Var, kStepOps> parts;
    std::array<long, kStepOps> made{};
    for (Var& part : parts) part = engine_.new_var();
    const Var joined = engine_.new_var();
    long sum = 0;
    const double start = now();
    for (int step = 0; step < steps; ++step) {
      for (int i = 0; i < kStepOps; ++i)
        engine_.push([cell = &made[static_cast<std::size_t>(i)]] { ++*cell; },
                     {.mutate = {parts[static_cast<std::size_t>(i)]}});
      Access join{.mutate = {joined}};
      for (const Var& part : parts) join.read.add(part);
      engine_.push(
          [&] {
            for (long cell : made) sum += cell;
          },
          join);
      engine_.wait(joined);
    }
    const double seconds = now() - start;
    const long n = steps;
    if (sum != kStepOps * (n * (n + 1) / 2)) throw std::runtime_error("heddle: step_wait is wrong");
    return seconds;
  }

  double nested_wait(int waits) override {
    const Var outer = engine_.new_var(), inner = engine_.new_var();
    long count = 0, total = 0;
    const double start = now();
    for (int i = 0; i < waits; ++i) {
      engine_.push(
          [&] {
            engine_.push([&] { ++count; }, {.mutate = {inner}});
            engine_.wait(inner);
            total += count;
          },
          {.mutate = {outer}});
    }
    engine_.wait(outer);
    const double seconds = now() - start;
    const long n = waits;
    if (total != n * (n + 1) / 2) throw std::runtime_error("heddle: nested_wait is wrong");
    return seconds;
  }

  double fib(int n) override {
    const Var done = engine_.new_var();
    long result = 0;
    const double start = now();
    engine_.push([&] { call(n, result); }, {.mutate = {done}});
    engine_.wait(done);
    const double seconds = now() - start;
    if (result != fib_of(n)) throw std::runtime_error("heddle: fib is wrong");
    return seconds;
  }

 private:
  static EngineOptions options(int workers) {
    EngineOptions options = EngineOptions::from_environment();
    options.workers = workers;
    return options;
  }

  void call(int n, long& result) {
    if (n < 2) {
      result = n;
      return;
    }
    long one = 0, two = 0;
    const Var first = engine_.new_var(), second = engine_.new_var();
    engine_.push([this, n, &one] { call(n - 1, one); }, {.mutate = {first}});
    engine_.push([this, n, &two] { call(n - 2, two); }, {.mutate = {second}});
    engine_.wait(first);
    engine_.wait(second);
    result = one + two;
  }

  Engine engine_;
};

}  // namespace

std::unique_ptr<WaitPeer> heddle_waits(int workers) { return std::make_unique<HeddleWaits>(workers); }

}  // namespace heddle::bench
