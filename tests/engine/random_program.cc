#include "random_program.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <stdexcept>
#include <thread>

#include <heddle/graph.h>
#include <heddle/host_stream.h>
#include <heddle/stream_ops.h>

namespace heddle::test {
namespace {

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
  return hash ^ (hash >> 29);
}

struct OpFailed : std::runtime_error {
  explicit OpFailed(int op) : std::runtime_error("op " + std::to_string(op)) {}
};

// A thread outside the engine that completes asynchronous ops, not in the order in which it gets them.
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
  std::vector<Stream*> streams{};
  Elsewhere elsewhere;
  std::uint64_t& value(int var) { return values[static_cast<std::size_t>(var)]; }

  // Computes an op. The new value of a mutated var depends on all values that the op reads; its old value
  // counts only if the op declares that it reads the var.
  void compute(const ProgramOp& op, int index) {
    const std::uint64_t hash = gather(op, index);
    if (op.fails) throw OpFailed(index);
    scatter(op, hash);
  }
  std::uint64_t gather(const ProgramOp& op, int index) {
    std::uint64_t hash = static_cast<std::uint64_t>(index);
    for (int var : op.reads) hash = mix(hash, value(var));
    return hash;
  }
  void scatter(const ProgramOp& op, std::uint64_t hash) {
    if (op.kind == Kind::copy) {
      value(op.mutates[0]) = value(op.reads[0]);
      return;
    }
    for (int var : op.mutates) value(var) = mix(hash, static_cast<std::uint64_t>(var));
  }
};

// Enqueues an op's work on a stream in two pieces, so that other work could come between them. An op that
// fails does so in the first piece, or while it is issued.
void enqueue_op(Machine* on, const ProgramOp* op, int index, Stream& stream) {
  auto hash = std::make_shared<std::uint64_t>();
  stream.enqueue([=] {
    *hash = on->gather(*op, index);
    if (op->fails && index % 2 == 0) throw OpFailed(index);
  });
  if (op->fails && index % 2 == 1) throw OpFailed(index);
  if (op->kind == Kind::copy) {
    stream.copy(&on->value(op->mutates[0]), &on->value(op->reads[0]), sizeof(std::uint64_t));
  } else {
    stream.enqueue([=] { on->scatter(*op, *hash); });
  }
}

// The groups that the ops of one run belong to.
struct Groups {
  Groups() {
    cancelled.cancel();
    overdue.set_deadline(std::chrono::steady_clock::time_point::min());
  }
  GroupRef of(Member member) const {
    switch (member) {
      case Member::of_live:
        return live;
      case Member::of_cancelled:
        return cancelled;
      case Member::of_overdue:
        return overdue;
      default:
        return {};
    }
  }
  Group live, cancelled, overdue;
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
              // The error is destroyed here, not in the handler. Its reader may be the last to release it,
              // and ThreadSanitizer does not see libstdc++'s reference count, which orders this.
              std::exception_ptr error;
              try {
                on->compute(*what, index);
              } catch (...) {
                error = std::current_exception();
              }
              error ? shared->fail(std::move(error)) : shared->done();
            });
          },
          access);
      break;
    case Kind::on_stream:
    case Kind::copy: {
      // One line for push and push_on, so that errors name the same line.
      const auto here = std::source_location::current();
      if (machine.streams.empty()) {
        engine.push([=] { on->compute(*what, index); }, access, here);
        break;
      }
      engine.push_on(
          *machine.streams[op.stream], [=](Stream& stream) { enqueue_op(on, what, index, stream); }, access,
          here);
      break;
    }
  }
}

// Makes `count` streams, which differ in how they report completed events. Some cannot wait for other
// streams.
void add_streams(Engine& engine, Machine& machine, std::size_t count, std::uint64_t seed) {
  for (std::size_t i = 0; i < count; ++i) {
    const Lane lane = i % 2 == 0 ? Lane::compute : Lane::copy_in;
    if (engine.options().scheduler != Scheduler::threaded) {
      machine.streams.push_back(&engine.make_stream(cpu(), lane));
      continue;
    }
    const HostStreamOptions options{.seed = seed + i,
                                    .most_delay = static_cast<int>((seed + i) % 4),
                                    .calls_back = (seed + i) % 2 == 0,
                                    .alone = seed % 3 == 0 && i == 0};
    machine.streams.push_back(&engine.adopt_stream(std::make_unique<HostStream>(cpu(), lane, options)));
  }
}

}  // namespace

Program random_program(std::uint64_t seed, int ops, int vars, std::size_t streams) {
  std::mt19937_64 random(seed);
  auto below = [&](int n) { return static_cast<int>(random() % static_cast<std::uint64_t>(n)); };
  Program program{vars, {}, {}, streams};
  for (int i = 0; i < ops; ++i) {
    ProgramOp op;
    const int kind = below(20);
    op.kind = kind < 14   ? Kind::sync
              : kind < 16 ? Kind::prepared
              : kind < 18 ? Kind::async_inline
                          : Kind::async_elsewhere;
    const int on = streams > 0 ? below(10) : 0;
    if (on >= 4) op.kind = on < 8 ? Kind::on_stream : Kind::copy;
    if (on >= 4) op.stream = static_cast<std::size_t>(below(static_cast<int>(streams)));
    // Few ops fail, since a poisoned var says nothing about the order of ops.
    op.fails = below(streams > 0 ? 400 : 100) == 0;
    if (op.kind == Kind::copy) {
      op.reads = {below(vars)};
      op.mutates = {(op.reads[0] + 1 + below(vars - 1)) % vars};
      program.ops.push_back(std::move(op));
      program.waits.push_back(-1);
      continue;
    }
    // With streams ops read few vars: ops that read half of all vars would leave nothing that streams could
    // overlap.
    for (int n = below(streams > 0 ? 4 : 20); n > 0; --n) op.reads.push_back(below(vars));
    for (int n = below(4); n > 0; --n) {
      op.mutates.push_back(!op.reads.empty() && below(4) == 0 ? op.reads.front() : below(vars));
    }
    program.ops.push_back(std::move(op));
    program.waits.push_back(below(500) == 0 ? below(vars) : -1);
  }
  return program;
}

Program with_wishes(Program program, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  for (ProgramOp& op : program.ops) {
    op.priority = random() % 3 == 0 ? static_cast<int>(random() % 7) - 3 : 0;
    if (random() % 100 == 0) op.priority = random() % 2 == 0 ? kMostPriority : -kMostPriority;
    op.bytes = random() % 2 == 0 ? random() % 100 : 0;
    const auto member = random() % 200;
    op.member = member == 0   ? Member::of_cancelled
                : member == 1 ? Member::of_overdue
                : member < 60 ? Member::of_live
                              : Member::of_none;
  }
  return program;
}

Outcome run_program(const Program& program, EngineOptions options, std::uint64_t seed) {
  return run_plan(program, {{0, program.ops.size(), false}}, options, false, seed);
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
                 bool capture, std::uint64_t seed) {
  Machine machine(program.vars);
  Engine engine(options);
  add_streams(engine, machine, program.streams, seed);
  std::vector<Var> vars;
  for (int i = 0; i < program.vars; ++i) vars.push_back(engine.new_var());
  const Groups groups;
  const auto push = [&](std::size_t i, bool in_graph) {
    const ProgramOp& op = program.ops[i];
    Access access{.name = "random", .priority = op.priority, .bytes = op.bytes};
    access.brief = op.kind == Kind::sync && i % 3 == 0;
    if (!in_graph) access.group = groups.of(op.member);
    for (int var : program.ops[i].reads) access.read.add(vars[static_cast<std::size_t>(var)]);
    for (int var : program.ops[i].mutates) access.mutate.add(vars[static_cast<std::size_t>(var)]);
    push_op(engine, machine, op, static_cast<int>(i), access);
  };
  const auto wait_after = [&](std::size_t i) {
    if (program.waits[i] < 0) return;
    try {
      engine.wait(vars[static_cast<std::size_t>(program.waits[i])]);
    } catch (const OpFailed&) {  // the errors of all vars are compared at the end
    } catch (const Cancelled&) {
    }
  };
  std::map<std::size_t, Graph> graphs;
  for (const Stretch& stretch : plan) {
    const auto push_all = [&] {
      for (std::size_t i = stretch.begin; i < stretch.end; ++i) {
        push(i, stretch.graph);
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
    } catch (const Cancelled&) {
    }
    const ErrorReport report = engine.error_of(var);
    outcome.errors.push_back(report.exception ? report.to_string() : "");
  }
  try {
    engine.wait_all();
  } catch (const AggregateError&) {
  }
  outcome.values = machine.values;
  for (std::size_t i = 0; i < vars.size(); ++i) {
    // A failed op on a stream may have written part of its values before it failed.
    if (!outcome.errors[i].empty()) outcome.values[i] = 0;
  }
  return outcome;
}

}  // namespace heddle::test
