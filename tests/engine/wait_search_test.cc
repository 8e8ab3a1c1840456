// How a wait inside an op finds out that it could never end, in steps that do not depend on what is queued behind the op.
#include "op/wait_search.h"

#include <atomic>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include <doctest/doctest.h>

#include <heddle/engine.h>

#include "core/core.h"

using namespace heddle;
using detail::WaitSearch;

namespace {

constexpr std::size_t kQueued = 20'000, kSteps = 64;

// An op that mutates `mine` and runs until it is let go, with kQueued others behind it.
struct Blocked {
  Engine engine{{.workers = 1}};
  Var mine = engine.new_var(), others[3] = {engine.new_var(), engine.new_var(), engine.new_var()};
  std::atomic<detail::OpNode*> op = nullptr;
  std::atomic<bool> go = false;

  Blocked() {
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
  engine.push([&] { waits = true; }, {.mutate = {free}});  // there is one worker: runs when the op waits
  queued = true;
  engine.wait(free);
  CHECK(waits);
  value = 5;
  completion->done();
  engine.wait(mine);
  CHECK(seen == 5);
  CHECK_FALSE(refused);
}
