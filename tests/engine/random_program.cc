#include "random_program.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <stdexcept>
#include <thread>

#include <heddle/graph.h>

namespace heddle::test {
namespace {

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
  return hash ^ (hash >> 29);
}

struct OpFailed : std::runtime_error {
  explicit OpFailed(int op) : std::runtime_error("op " + std::to_string(op)) {}
};

// Finishes asynchronous ops on a thread that the engine does not know, not in the order they came in.
class Elsewhere {
 public:
  Elsewhere() : thread_([this] { run(); }) {}
  ~Elsewhere() {
    {
      std::lock_guard guard(mutex_);
      closed_ = true;
    }
    more_.notify_one();
    thread_.join();
  }
  void add(std::function<void()> job) {
    {
      std::lock_guard guard(mutex_);
      jobs_.push_back(std::move(job));
    }
    more_.notify_one();
  }

 private:
  void run() {
    std::mt19937 random(1);
    std::unique_lock lock(mutex_);
    for (;;) {
      more_.wait(lock, [&] { return closed_ || !jobs_.empty(); });
      if (jobs_.empty()) return;
      const auto at = static_cast<std::ptrdiff_t>(random() % jobs_.size());
      std::function<void()> job = std::move(jobs_[static_cast<std::size_t>(at)]);
      jobs_.erase(jobs_.begin() + at);
      lock.unlock();
      job();
      job = nullptr;
      lock.lock();
    }
  }
  std::mutex mutex_;
  std::condition_variable more_;
  std::deque<std::function<void()>> jobs_;
  bool closed_ = false;
  std::thread thread_;
};

struct Machine {
  explicit Machine(int vars) : values(static_cast<std::size_t>(vars), 1) {}
  std::vector<std::uint64_t> values;
  Elsewhere elsewhere;

  // The new value depends on everything read; the old one counts only where the op says it reads it.
  void compute(const ProgramOp& op, int index) {
    std::uint64_t hash = static_cast<std::uint64_t>(index);
    for (int var : op.reads) hash = mix(hash, values[static_cast<std::size_t>(var)]);
    if (op.fails) throw OpFailed(index);
    for (int var : op.mutates)
      values[static_cast<std::size_t>(var)] = mix(hash, static_cast<std::uint64_t>(var));
  }
};

void push_op(Engine& engine, Machine& machine, const ProgramOp& op, int index, const Access& access) {
  const ProgramOp* what = &op;
  Machine* on = &machine;
  switch (op.kind) {
    case Kind::sync:
      engine.push([=] { on->compute(*what, index); }, access);
      break;
    case Kind::prepared:
      engine.push(engine.prepare([=] { on->compute(*what, index); }, access));
      break;
    case Kind::async_inline:
      engine.push_async(
          [=](RunContext&, Completion completion) {
            on->compute(*what, index);
            completion.done();
          },
          access);
      break;
    case Kind::async_elsewhere:
      engine.push_async(
          [=](RunContext&, Completion completion) {
            auto shared = std::make_shared<Completion>(std::move(completion));
            on->elsewhere.add([=] {
              try {
                on->compute(*what, index);
                shared->done();
              } catch (...) {
                shared->fail(std::current_exception());
              }
            });
          },
          access);
      break;
  }
}

}  // namespace

Program random_program(std::uint64_t seed, int ops, int vars) {
  std::mt19937_64 random(seed);
  auto below = [&](int n) { return static_cast<int>(random() % static_cast<std::uint64_t>(n)); };
  Program program{vars, {}, {}};
  for (int i = 0; i < ops; ++i) {
    ProgramOp op;
    const int kind = below(20);
    op.kind = kind < 14   ? Kind::sync
              : kind < 16 ? Kind::prepared
              : kind < 18 ? Kind::async_inline
                          : Kind::async_elsewhere;
    op.fails = below(100) == 0;
    for (int n = below(20); n > 0; --n) op.reads.push_back(below(vars));
    for (int n = below(4); n > 0; --n) {
      op.mutates.push_back(!op.reads.empty() && below(4) == 0 ? op.reads.front() : below(vars));
    }
    program.ops.push_back(std::move(op));
    program.waits.push_back(below(500) == 0 ? below(vars) : -1);
  }
  return program;
}

Outcome run_program(const Program& program, EngineOptions options) {
  return run_plan(program, {{0, program.ops.size(), false}}, options, false);
}

std::vector<Stretch> random_plan(std::uint64_t seed, const Program& program) {
  std::mt19937_64 random(seed);
  std::vector<Stretch> stretches, plan;
  for (std::size_t at = 0; at < program.ops.size();) {
    const std::size_t end = std::min(program.ops.size(), at + 1 + random() % 60);
    stretches.push_back({at, end, random() % 2 == 0});
    at = end;
  }
  for (std::size_t i = 0; i < 3 * stretches.size(); ++i) {
    const Stretch& one = stretches[random() % stretches.size()];
    for (auto times = 1 + (one.graph ? random() % 3 : 0); times > 0; --times) plan.push_back(one);
  }
  return plan;
}

Outcome run_plan(const Program& program, const std::vector<Stretch>& plan, EngineOptions options,
                 bool capture) {
  Machine machine(program.vars);
  Engine engine(options);
  std::vector<Var> vars;
  for (int i = 0; i < program.vars; ++i) vars.push_back(engine.new_var());
  const auto push = [&](std::size_t i) {
    Access access{.name = "random"};
    for (int var : program.ops[i].reads) access.read.add(vars[static_cast<std::size_t>(var)]);
    for (int var : program.ops[i].mutates) access.mutate.add(vars[static_cast<std::size_t>(var)]);
    push_op(engine, machine, program.ops[i], static_cast<int>(i), access);
  };
  const auto wait_after = [&](std::size_t i) {
    if (program.waits[i] < 0) return;
    try {
      engine.wait(vars[static_cast<std::size_t>(program.waits[i])]);
    } catch (const OpFailed&) {  // compared at the end
    }
  };
  std::map<std::size_t, Graph> graphs;
  for (const Stretch& stretch : plan) {
    const auto push_all = [&] {
      for (std::size_t i = stretch.begin; i < stretch.end; ++i) {
        push(i);
        if (!stretch.graph) wait_after(i);
      }
    };
    if (!stretch.graph || !capture) {
      push_all();
    } else {
      const auto [at, is_new] = graphs.try_emplace(stretch.begin);
      if (is_new) at->second = engine.capture(push_all);
      at->second.launch();
    }
    if (stretch.graph) wait_after(stretch.end - 1);
  }
  Outcome outcome;
  for (const Var& var : vars) {
    try {
      engine.wait(var);
    } catch (const OpFailed&) {
    }
    const ErrorReport report = engine.error_of(var);
    outcome.errors.push_back(report.exception ? report.to_string() : "");
  }
  try {
    engine.wait_all();
  } catch (const AggregateError&) {
  }
  outcome.values = machine.values;
  return outcome;
}

}  // namespace heddle::test
