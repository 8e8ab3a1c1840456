// A wait inside an op finds out whether it could never end, in bounded steps, however many ops are queued
// behind the op.
#include "op/wait_search.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/engine.h>
#include <heddle/graph.h>

#include "core/core.h"

using namespace heddle;
using detail::WaitSearch;

namespace {

constexpr std::size_t kQueued = 20'000, kSteps = 64;

// An op that mutates `mine` and runs until `go` is set. kQueued ops are queued behind it.
struct Blocked {
  Engine engine;
  Var mine = engine.new_var(), others[3] = {engine.new_var(), engine.new_var(), engine.new_var()};
  std::atomic<detail::OpNode*> op = nullptr;
  std::atomic<bool> go = false;

  explicit Blocked(int workers = 1) : engine({.workers = workers}) {
    engine.push(
        [&] {
          op = engine.core().current_op();
          while (!go) std::this_thread::yield();
        },
        {.mutate = {mine}});
    while (!op) std::this_thread::yield();
  }
  void queue(int every) {
    for (std::size_t i = 0; i < kQueued; ++i) {
      const Var& other = others[i % 3];
      engine.push([] {}, i % static_cast<std::size_t>(every) == 0 ? Access{.mutate = {mine, other}}
                                                                  : Access{.read = {mine, other}});
    }
    engine.core().scheduler().enter_submitted();
  }
  ~Blocked() { go = true; }
};

// The op whose access is first in the var's queue; null if the queue is empty.
detail::OpNode* first_queued_on(const Var& var) {
  std::lock_guard guard(var.state()->lock);
  return var.state()->head ? var.state()->head->op : nullptr;
}

}  // namespace

TEST_CASE(
    "a search for a deadlock looks at no more ops at once than it may, whatever is queued behind an op") {
  for (int every : {1, 2, 1000, 1'000'000}) {
    CAPTURE(every);
    Blocked blocked;
    blocked.queue(every);
    detail::WaitState never;
    WaitSearch search(never, *blocked.op, blocked.engine.core().waits);
    std::optional<bool> answer;
    std::size_t seen = 0, looks = 0;
    for (; !answer; ++looks) {
      answer = search.look(kSteps, WaitSearch::IfFound::leave);
      CHECK(search.seen() <= seen + kSteps + 1);
      seen = search.seen();
    }
    CHECK(answer == false);
    CHECK(seen == kQueued + 1);
    CHECK(looks >= kQueued / kSteps);
  }
}

TEST_CASE("a search starts again when a wait was given up: the op that waited may be gone") {
  Blocked blocked;
  blocked.queue(2);
  detail::OpWaits& waits = blocked.engine.core().waits;
  detail::WaitState never, other;
  WaitSearch search(never, *blocked.op, waits);
  for (int i = 0; i < 10; ++i) CHECK_FALSE(search.look(kSteps, WaitSearch::IfFound::leave));
  const std::size_t seen = search.seen();
  {
    std::lock_guard guard(waits.mutex);
    waits.give_up(other);
  }
  CHECK_FALSE(search.look(kSteps, WaitSearch::IfFound::leave));
  CHECK(search.seen() < seen);
  CHECK(search.look(100 * kQueued, WaitSearch::IfFound::leave) == false);
}

// Reads that are next to each other in a var's queue do not wait for each other. So the reads beside one that
// the search has met do not wait for the op where the search has started.
TEST_CASE(
    "reads queued beside a read that a search has met may run, and their memory may be gone, before it goes "
    "on") {
  Blocked blocked(2);
  Engine& engine = blocked.engine;
  const Var &mine = blocked.mine, &shared = blocked.others[0], &last = blocked.others[1];
  std::atomic<bool> mutation_runs = false, mutation_may_end = false, ended = false;
  std::atomic<int> reads = 0;
  engine.push(
      [&] {
        mutation_runs = true;
        while (!mutation_may_end) std::this_thread::yield();
      },
      {.mutate = {shared}});
  while (!mutation_runs) std::this_thread::yield();
  engine.push([] {}, {.read = {mine, shared}});
  for (int i = 0; i < 3; ++i) engine.push([&] { ++reads; }, {.read = {shared}});
  engine.push([] {}, {.mutate = {shared}});
  engine.core().scheduler().enter_submitted();
  detail::WaitState never;
  WaitSearch search(never, *blocked.op, engine.core().waits);
  // Finds the op on both vars, and the first op queued after it on `shared`.
  CHECK_FALSE(search.look(3, WaitSearch::IfFound::leave));
  CHECK(search.seen() == 2);
  mutation_may_end = true;
  while (reads < 3) std::this_thread::yield();
  // When this op runs, the only free worker has freed the reads.
  engine.push([&] { ended = true; }, {.mutate = {last}});
  while (!ended) std::this_thread::yield();
  CHECK(search.look(kSteps, WaitSearch::IfFound::leave) == false);
  CHECK(search.seen() == 3);
}

TEST_CASE("a wait inside an op ends when it may, though the search for a deadlock is under way") {
  Engine engine({.workers = 1});
  Var mine = engine.new_var(), late = engine.new_var(), free = engine.new_var();
  std::optional<Completion> completion;
  std::atomic<bool> started = false, queued = false, waits = false;
  bool refused = false;
  int value = 0, seen = 0;
  engine.push_async(
      [&](RunContext&, Completion done) {
        completion.emplace(std::move(done));
        started = true;
      },
      {.mutate = {late}});
  while (!started) std::this_thread::yield();
  engine.push(
      [&] {
        while (!queued) std::this_thread::yield();
        try {
          engine.wait(late);
          seen = value;
        } catch (const WouldDeadlock&) {
          refused = true;
        }
      },
      {.mutate = {mine}});
  for (std::size_t i = 0; i < kQueued; ++i) engine.push([] {}, {.read = {mine}});
  // With one worker this op runs only while the op before waits.
  engine.push([&] { waits = true; }, {.mutate = {free}});
  queued = true;
  engine.wait(free);
  CHECK(waits);
  value = 5;
  completion->done();
  engine.wait(mine);
  CHECK(seen == 5);
  CHECK_FALSE(refused);
}

// Which thread runs the second op is open: a worker, or the thread that waits inside the first op.
TEST_CASE("of ops that wait for each other in a circle one is refused, and all end") {
  for (const int workers : {1, 2, 4}) {
    for (const std::size_t ops : {2, 3, 5}) {
      for (int round = 0; round < 50; ++round) {
        CAPTURE(workers);
        CAPTURE(ops);
        Engine engine({.scheduler = Scheduler::threaded, .workers = workers});
        std::vector<Var> vars;
        for (std::size_t i = 0; i < ops; ++i) vars.push_back(engine.new_var());
        std::atomic<bool> pushed = false;
        std::atomic<int> refused = 0, ended = 0;
        for (std::size_t i = 0; i < ops; ++i) {
          engine.push(
              [&, i] {
                while (!pushed) std::this_thread::yield();
                try {
                  engine.wait(vars[(i + 1) % ops]);
                } catch (const WouldDeadlock&) {
                  ++refused;
                }
                ++ended;
              },
              {.mutate = {vars[i]}});
        }
        pushed = true;
        engine.wait_all();
        CHECK(ended == static_cast<int>(ops));
        CHECK(refused >= 1);
      }
    }
  }
}

// If a search reached the launch by way of the first var, it would take the ops queued on the second var for
// successors of the launch, although they were pushed before it.
TEST_CASE("a launch that is being entered holds no var that it is not queued on yet") {
  Blocked blocked;
  const Var &first = blocked.mine, &second = blocked.others[0];
  Graph graph = blocked.engine.capture([&] {
    blocked.engine.push([] {}, {.mutate = {first}});
    blocked.engine.push([] {}, {.mutate = {second}});
  });
  std::unique_lock lock(second.state()->lock);
  std::thread launching([&] {
    graph.launch();
    blocked.engine.core().scheduler().enter_submitted();
  });
  detail::OpNode* launch = nullptr;
  while (!launch) {
    std::this_thread::yield();
    launch = first_queued_on(first);
  }
  const std::span accesses(launch->accesses(), launch->access_count);
  const bool granted_early = std::any_of(accesses.begin(), accesses.end(), [&](const auto& access) {
    return access.var == second.state() && access.granted;
  });
  lock.unlock();
  launching.join();
  CHECK_FALSE(granted_early);
}

TEST_CASE("a search finds what is queued behind a launch that took over its vars from the launch before") {
  Engine engine({.workers = 1});
  const Var var = engine.new_var();
  std::atomic<detail::OpNode*> running = nullptr;
  std::atomic<int> started = 0, may_end = 0;
  Graph graph = engine.capture([&] {
    engine.push(
        [&] {
          running = engine.core().current_op();
          const int launch = ++started;
          while (may_end < launch) std::this_thread::yield();
        },
        {.mutate = {var}});
  });
  const auto await_launch = [&](int number) {
    while (started < number) std::this_thread::yield();
  };
  graph.launch();
  await_launch(1);
  const detail::OpNode* const first = running;
  graph.launch();
  engine.push([] {}, {.mutate = {var}});
  engine.core().scheduler().enter_submitted();
  may_end = 1;
  await_launch(2);
  const bool took_over = running.load()->extra->holder == first;
  detail::WaitState never;
  WaitSearch search(never, *running, engine.core().waits);
  const std::optional<bool> answer = search.look(kSteps, WaitSearch::IfFound::leave);
  may_end = 2;
  CHECK(took_over);
  CHECK(answer == false);
  CHECK(search.seen() == 2);
}
