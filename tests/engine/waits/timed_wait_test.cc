#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <semaphore>
#include <stdexcept>
#include <string>
#include <thread>

#include <doctest/doctest.h>

#include <heddle/engine.h>
#include <heddle/log.h>

#include "schedulers.h"

using namespace heddle;
using namespace heddle::test;
using namespace std::chrono_literals;

namespace {

using Clock = std::chrono::steady_clock;

// An asynchronous op on `var`, which ends when end() is called. A thread of its own pushes the op and waits
// for it: under `naive` the push returns only when the op has ended, and under `fuzz` only a waiting thread
// runs the op.
class HeldOp {
 public:
  HeldOp(Engine& engine, const Var& var)
      : thread_([this, &engine, var] {
          engine.push_async(
              [this](RunContext&, Completion done) {
                completion_.emplace(std::move(done));
                started_.release();
              },
              {.mutate = {var}});
          engine.wait(var);
        }) {
    started_.acquire();
  }
  void end() { completion_->done(); }

 private:
  std::optional<Completion> completion_;
  std::binary_semaphore started_{0};
  std::jthread thread_;
};

}  // namespace

TEST_CASE("a wait with a deadline gives up, and the op goes on") {
  on_every_scheduler([](Engine& engine) {
    const Var var = engine.new_var();
    HeldOp op(engine, var);
    CHECK_FALSE(engine.wait_until(var, Clock::now()));
    CHECK_FALSE(engine.wait_until(var, Clock::time_point::min()));
    CHECK_FALSE(engine.wait_until(var, Clock::now() + 2ms));
    op.end();
    CHECK(engine.wait_until(var, Clock::time_point::max()));
    CHECK(engine.wait_until(var, Clock::now() + 24h));
  });
}

TEST_CASE("a wait with a deadline throws the error of its var") {
  on_every_scheduler_with_errors([](Engine& engine) {
    const Var var = engine.new_var();
    engine.push([] { throw std::runtime_error("disk full"); }, {.mutate = {var}});
    CHECK_THROWS_WITH(engine.wait_until(var, Clock::now() + 24h), "disk full");
    engine.clear_error(var);
    CHECK_NOTHROW(engine.wait_all());  // throws nothing, since the error counts as seen
  });
}

TEST_CASE("a wait with a deadline inside an op gives up, and finds a deadlock") {
  for (const int workers : {1, 4}) {
    Engine engine({.workers = workers});
    const Var var = engine.new_var(), own = engine.new_var();
    HeldOp op(engine, var);
    std::atomic<bool> over{true}, found{false};
    engine.push(
        [&] {
          over = engine.wait_until(var, Clock::now() + 2ms);
          engine.push([] {}, {.mutate = {own}});
          try {
            engine.wait_until(own, Clock::now() + 24h);
          } catch (const WouldDeadlock&) {
            found = true;
          }
        },
        {.mutate = {own}});
    engine.wait(own);
    CHECK_FALSE(over);
    CHECK(found);
    op.end();
  }
}

TEST_CASE("hooks run once on each worker thread") {
  std::atomic<int> started{0}, ended{0};
  EngineOptions options{.workers = 3};
  options.on_thread_start = [&] { ++started; };
  options.on_thread_end = [&] { ++ended; };
  { Engine engine(options); }
  CHECK(started == 3);
  CHECK(ended == 3);
}

TEST_CASE("an error that nobody saw goes to the log") {
  std::mutex mutex;
  std::string logged;
  set_log([&](std::string_view text) {
    const std::lock_guard guard(mutex);
    logged += text;
  });
  {
    Engine engine({.workers = 1});
    const Var var = engine.new_var();
    engine.push([] { throw std::runtime_error("disk full"); }, {.mutate = {var}, .name = "load"});
  }
  set_log({});
  CHECK(logged.find("an error that nobody waited for: op 'load'") != std::string::npos);
}
