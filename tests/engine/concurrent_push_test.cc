// Many threads push over overlapping var sets: no cycle may form, and the result must match the push order
// that the engine reports.
#include <algorithm>
#include <random>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/engine.h>

#include "arguments.h"

using namespace heddle;

namespace {

struct Pushed {
  std::uint64_t sequence = 0;
  std::uint64_t id = 0;
  std::uint64_t seen = 0;  // hash of the values of the vars that the op has read
  std::vector<int> reads, mutates;
};

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
  return hash ^ (hash >> 29);
}

std::uint64_t run_op(const Pushed& op, std::vector<std::uint64_t>& values) {
  std::uint64_t hash = op.id;
  for (int var : op.reads) hash = mix(hash, values[static_cast<std::size_t>(var)]);
  for (int var : op.mutates) hash = mix(hash, values[static_cast<std::size_t>(var)]);
  for (int var : op.mutates)
    values[static_cast<std::size_t>(var)] = mix(hash, static_cast<std::uint64_t>(var));
  return hash;
}

void push_many(Engine& engine, const std::vector<Var>& vars, std::vector<Pushed>& ops, int thread,
               std::vector<std::uint64_t>& values) {
  std::mt19937_64 random(static_cast<std::uint64_t>(thread));
  auto some_var = [&] { return static_cast<int>(random() % vars.size()); };
  std::uint64_t id = static_cast<std::uint64_t>(thread) << 32;
  for (Pushed& op : ops) {
    op.id = id++;
    for (auto n = random() % 4; n > 0; --n) op.reads.push_back(some_var());
    for (auto n = 1 + random() % 3; n > 0; --n) op.mutates.push_back(some_var());
    Access access;
    for (int var : op.reads) access.read.add(vars[static_cast<std::size_t>(var)]);
    for (int var : op.mutates) access.mutate.add(vars[static_cast<std::size_t>(var)]);
    for (int var : op.mutates) access.read.add(vars[static_cast<std::size_t>(var)]);
    engine.push(
        [&op, &values](RunContext& context) {
          op.sequence = context.sequence;
          op.seen = run_op(op, values);
        },
        access);
  }
}

}  // namespace

TEST_CASE("eight pushing threads: the result is that of the reported serial order") {
  constexpr int kThreads = 8;
  const auto per_thread =
      static_cast<std::size_t>(test::argument("pushes", test::kSanitized ? 20000 : 100000));
  for (int workers : {1, 2, 4}) {
    CAPTURE(workers);
    Engine engine({.workers = workers});
    std::vector<Var> vars;
    for (int i = 0; i < 16; ++i) vars.push_back(engine.new_var());
    std::vector<std::uint64_t> values(vars.size(), 1);
    std::vector<std::vector<Pushed>> ops(kThreads, std::vector<Pushed>(per_thread));
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] { push_many(engine, vars, ops[static_cast<std::size_t>(t)], t, values); });
    }
    for (std::thread& thread : threads) thread.join();
    engine.wait_all();

    std::vector<const Pushed*> order;
    for (const auto& list : ops) {
      for (std::size_t i = 0; i < list.size(); ++i) {
        order.push_back(&list[i]);
        // The ops of a thread keep the order in which it has pushed them.
        if (i > 0) REQUIRE(list[i - 1].sequence < list[i].sequence);
      }
    }
    std::sort(order.begin(), order.end(), [](auto* a, auto* b) { return a->sequence < b->sequence; });
    std::vector<std::uint64_t> replayed(vars.size(), 1);
    for (const Pushed* op : order) REQUIRE(run_op(*op, replayed) == op->seen);
    CHECK(replayed == values);
  }
}

TEST_CASE("ops that push ops over crossing vars end") {
  for (auto scheduler : {Scheduler::threaded, Scheduler::fuzz, Scheduler::naive}) {
    Engine engine({.scheduler = scheduler, .workers = 2});
    std::vector<Var> vars;
    for (int i = 0; i < 4; ++i) vars.push_back(engine.new_var());
    std::vector<int> counts(4, 0);
    for (std::size_t i = 0; i < 1000; ++i) {
      engine.push(
          [&, i] {
            ++counts[i % 4];
            engine.push([&, i] { ++counts[(i + 1) % 4]; },
                        {.mutate = {vars[(i + 1) % 4], vars[(i + 2) % 4]}});
          },
          {.mutate = {vars[i % 4]}});
    }
    engine.wait_all();
    CHECK(counts == std::vector<int>(4, 500));
  }
}
