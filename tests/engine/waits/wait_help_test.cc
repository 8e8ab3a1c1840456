// The ops that a waiting thread runs: those that its wait needs, and no others.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/engine.h>

#include "core/core.h"
#include "op/need_search.h"
#include "schedulers.h"

using namespace heddle;
using namespace heddle::test;
using detail::NeedSearch;

namespace {

struct Accesses {
  std::vector<int> reads, mutates;
};

std::vector<Accesses> random_accesses(std::mt19937_64& random, int ops, int vars) {
  std::vector<Accesses> program(static_cast<std::size_t>(ops));
  for (Accesses& op : program) {
    for (std::size_t i = random() % 3; i > 0; --i)
      op.reads.push_back(static_cast<int>(random() % static_cast<unsigned>(vars)));
    for (std::size_t i = random() % 2 + (op.reads.empty() ? 1 : 0); i > 0; --i)
      op.mutates.push_back(static_cast<int>(random() % static_cast<unsigned>(vars)));
  }
  return program;
}

bool contains(const std::vector<int>& list, int value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

bool conflict(const Accesses& a, const Accesses& b) {
  for (int var : a.mutates) {
    if (contains(b.mutates, var) || contains(b.reads, var)) return true;
  }
  for (int var : a.reads) {
    if (contains(b.mutates, var)) return true;
  }
  return false;
}

// The ops that must end before a wait for `var` at the program's end can return, computed from the
// definition.
std::set<std::size_t> needed_by(const std::vector<Accesses>& program, int var) {
  std::set<std::size_t> needed;
  for (std::size_t i = program.size(); i-- > 0;) {
    bool is_needed = contains(program[i].mutates, var);
    for (std::size_t later : needed) is_needed |= conflict(program[i], program[later]);
    if (is_needed) needed.insert(i);
  }
  return needed;
}

Access access_of(const Accesses& op, const std::vector<Var>& vars) {
  Access access;
  for (int var : op.reads) access.read.add(vars[static_cast<std::size_t>(var)]);
  for (int var : op.mutates) access.mutate.add(vars[static_cast<std::size_t>(var)]);
  return access;
}

std::vector<Var> vars_of(Engine& engine, int count) {
  std::vector<Var> vars;
  for (int i = 0; i < count; ++i) vars.push_back(engine.new_var());
  return vars;
}

// An op that holds the vars of `access` until `go` is set.
struct Holder {
  std::atomic<detail::OpNode*> op{nullptr};
  std::atomic<bool> go{false};
  Holder(Engine& engine, const Access& access) {
    engine.push(
        [this, &engine] {
          op = engine.core().current_op();
          while (!go) std::this_thread::yield();
        },
        access);
    while (!op) std::this_thread::yield();
  }
  ~Holder() { go = true; }
};

}  // namespace

TEST_CASE("the search finds what the definition says, for an op that others are queued behind") {
  int found = 0, not_found = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    std::mt19937_64 random(seed);
    constexpr int kVars = 6;
    std::vector<Accesses> program = random_accesses(random, 14, kVars);
    Engine engine({.scheduler = Scheduler::threaded, .workers = 1});
    const std::vector<Var> vars = vars_of(engine, kVars);
    const Holder first(engine, access_of(program[0], vars));
    for (std::size_t i = 1; i < program.size(); ++i) engine.push([] {}, access_of(program[i], vars));
    engine.core().scheduler().enter_submitted();
    for (int var = 0; var < kVars; ++var) {
      const bool expected = needed_by(program, var).contains(0);
      NeedSearch search(*vars[static_cast<std::size_t>(var)].state());
      REQUIRE_MESSAGE(search.needs(*first.op) == expected, "seed " << seed << ", var " << var);
      ++(expected ? found : not_found);
    }
  }
  CHECK(found > 100);
  CHECK(not_found > 100);
}

TEST_CASE("the search leaves out what was pushed after the wait") {
  Engine engine({.scheduler = Scheduler::threaded, .workers = 1});
  const std::vector<Var> vars = vars_of(engine, 3);
  const Holder first(engine, {.mutate = {vars[0]}});
  engine.push([] {}, {.read = {vars[0]}, .mutate = {vars[1]}});
  engine.push([] {}, {.read = {vars[1]}, .mutate = {vars[2]}});
  engine.core().scheduler().enter_submitted();
  const std::uint64_t sequence = static_cast<detail::OpNode*>(first.op)->sequence;
  const auto needs = [&](int var, std::uint64_t before) {
    NeedSearch search(*vars[static_cast<std::size_t>(var)].state());
    search.limit(before);
    return search.needs(*first.op);
  };
  CHECK(needs(2, sequence + 3));
  CHECK_FALSE(needs(2, sequence + 2));
  CHECK(needs(1, sequence + 2));
  CHECK_FALSE(needs(1, sequence + 1));
  CHECK(needs(0, sequence + 1));
  CHECK_FALSE(needs(0, sequence));
}

TEST_CASE("the search gives up where too much is queued, and finds a near way among much") {
  Engine engine({.scheduler = Scheduler::threaded, .workers = 1});
  const std::vector<Var> vars = vars_of(engine, 1002);
  const Holder first(engine, {.mutate = {vars[0]}});
  for (std::size_t i = 1; i <= 1000; ++i) engine.push([] {}, {.read = {vars[i - 1]}, .mutate = {vars[i]}});
  engine.core().scheduler().enter_submitted();
  CHECK_FALSE(NeedSearch(*vars[1000].state()).needs(*first.op));
  CHECK(NeedSearch(*vars[20].state()).needs(*first.op));
  CHECK_FALSE(NeedSearch(*vars[1001].state()).needs(*first.op));
}

TEST_CASE(
    "a thread that waits runs no op that its wait does not need, which may lock what that thread has "
    "locked") {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    std::mt19937_64 random(seed);
    constexpr int kVars = 5;
    const std::vector<Accesses> program = random_accesses(random, 12, kVars);
    Engine engine({.scheduler = Scheduler::threaded, .workers = static_cast<int>(1 + seed % 3)});
    const std::vector<Var> vars = vars_of(engine, kVars);
    constexpr int kAny = -2;  // marks a wait_all, during which the waiting thread may run any op
    const std::thread::id waiting = std::this_thread::get_id();
    std::atomic<int> waits_for{-1};
    std::atomic<int> wrong{0};
    std::vector<std::set<std::size_t>> needed;
    for (int var = 0; var < kVars; ++var) needed.push_back(needed_by(program, var));
    for (std::size_t i = 0; i < program.size(); ++i) {
      engine.push(
          [&, i] {
            if (std::this_thread::get_id() != waiting) return;
            const int var = waits_for;
            if (var == kAny) return;
            if (var < 0 || !needed[static_cast<std::size_t>(var)].contains(i)) ++wrong;
          },
          access_of(program[i], vars));
    }
    for (std::size_t round = 0; round < kVars; ++round) {
      const std::size_t var = (round + seed) % kVars;
      waits_for = static_cast<int>(var);
      engine.wait(vars[var]);
      waits_for = -1;
    }
    waits_for = kAny;
    engine.wait_all();
    REQUIRE_MESSAGE(wrong == 0, "seed " << seed);
  }
}

TEST_CASE(
    "no sibling that a wait does not need runs on top of the op that waits, which may hold a lock of it") {
  for (int workers : {1, 2, 3}) {
    Engine engine({.scheduler = Scheduler::threaded, .workers = workers});
    const std::vector<Var> vars = vars_of(engine, 3);
    std::atomic<std::thread::id> holder{};
    std::atomic<int> ran{0}, on_top{0};
    for (int round = 0; round < 300; ++round) {
      engine.push(
          [&] {
            engine.push(
                [&] {
                  on_top += holder.load() == std::this_thread::get_id();
                  ++ran;
                },
                {.mutate = {vars[1]}});
            engine.push([] {}, {.mutate = {vars[2]}});
            holder = std::this_thread::get_id();
            engine.wait(vars[2]);
            holder = std::thread::id();
            engine.wait(vars[1]);
          },
          {.mutate = {vars[0]}});
      if (round % 3 == 0) engine.wait(vars[0]);
    }
    engine.wait_all();
    CHECK(ran == 300);
    CHECK(on_top == 0);
  }
}

TEST_CASE("a wait for a var at rest gives its error each time, and no other's") {
  on_every_scheduler([](Engine& engine) {
    const std::vector<Var> vars = vars_of(engine, 2);
    engine.push([] { throw std::runtime_error("lost"); }, {.mutate = {vars[0]}});
    engine.push([] {}, {.mutate = {vars[1]}});
    CHECK_THROWS_WITH_AS(engine.wait(vars[0]), "lost", std::runtime_error);
    CHECK_THROWS_WITH_AS(engine.wait(vars[0]), "lost", std::runtime_error);
    engine.wait(vars[1]);
    engine.push([] {}, {.mutate = {vars[0]}});
    engine.wait(vars[0]);
  });
}

TEST_CASE("steps of many ops and one wait, from several threads at once") {
  on_every_scheduler([](Engine& engine) {
    constexpr int kThreads = 3, kSteps = 200, kOps = 8;
    std::vector<std::thread> threads;
    std::atomic<int> right{0};
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&engine, &right] {
        const std::vector<Var> parts = vars_of(engine, kOps);
        const Var joined = engine.new_var();
        std::vector<long> made(kOps);
        long sum = 0;
        for (long step = 1; step <= kSteps; ++step) {
          for (std::size_t i = 0; i < kOps; ++i)
            engine.push([&made, i] { ++made[i]; }, {.mutate = {parts[i]}});
          Access join{.mutate = {joined}};
          for (const Var& part : parts) join.read.add(part);
          engine.push(
              [&] {
                sum = 0;
                for (long part : made) sum += part;
              },
              join);
          engine.wait(joined);
          right += sum == step * kOps;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(right == kThreads * kSteps);
  });
}

namespace {

void work_for(std::chrono::microseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
  }
}

}  // namespace

// An op keeps one of the two workers busy, so that there is a free slot for the waiting thread.
TEST_CASE("a thread that waits leaves long ops to the workers, and short ones not, whatever ran before") {
  Engine engine({.scheduler = Scheduler::threaded, .workers = 2});
  const std::thread::id here = std::this_thread::get_id();
  Var gate = engine.new_var();
  std::atomic<bool> runs = false, open = false;
  engine.push(
      [&] {
        runs = true;
        runs.notify_all();
        open.wait(false);
      },
      {.mutate = {gate}});
  runs.wait(false);
  std::atomic<int> on_waiter = 0;
  const auto run_chain = [&](int length, std::chrono::microseconds each) {
    on_waiter = 0;
    Var var = engine.new_var();
    for (int k = 0; k < length; ++k)
      engine.push([&, each] { on_waiter += std::this_thread::get_id() == here, work_for(each); },
                  {.mutate = {var}});
    engine.wait(var);
    return on_waiter.load();
  };
  int of_short_ones = 0;
  for (int round = 0; round < 20; ++round) {
    CHECK(run_chain(8, std::chrono::microseconds(200)) <= 1);
    for (int i = 0; i < 5; ++i) of_short_ones += run_chain(20, std::chrono::microseconds(0));
  }
  int of_long_ones = 0;
  for (int round = 0; round < 40; ++round) of_long_ones += run_chain(2, std::chrono::microseconds(200));
  CHECK(of_long_ones <= 8);    // the waiting thread tries long ops only in the waits 1, 3, 6, 11, 20 and 37
  CHECK(of_short_ones > 200);  // of 2,000 short ops; a worker that is awake may take the others
  open = true;
  open.notify_all();
  engine.wait_all();
}

TEST_CASE("a wait inside an op that a waiting thread runs is helped, however long ops take") {
  Engine engine({.scheduler = Scheduler::threaded, .workers = 2});
  const std::thread::id here = std::this_thread::get_id();
  Var gate = engine.new_var(), outer = engine.new_var();
  std::atomic<bool> runs = false, open = false;
  engine.push(
      [&] {
        runs = true;
        runs.notify_all();
        open.wait(false);
      },
      {.mutate = {gate}});
  runs.wait(false);
  std::atomic<int> on_waiter = 0;
  engine.push(
      [&] {
        // Nothing to check: the other worker has taken this op.
        if (std::this_thread::get_id() != here) return;
        Var inner = engine.new_var();
        for (int k = 0; k < 8; ++k)
          engine.push(
              [&] {
                on_waiter += std::this_thread::get_id() == here, work_for(std::chrono::microseconds(100));
              },
              {.mutate = {inner}});
        engine.wait(inner);
        CHECK(on_waiter > 1);
      },
      {.mutate = {outer}});
  engine.wait(outer);
  open = true;
  open.notify_all();
  engine.wait_all();
}
