#include "stream_program.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <random>
#include <set>
#include <stdexcept>
#include <string>

#include "op/failure.h"
#include "op/op_node.h"
#include "stream/fence_set.h"
#include "stream/issuer.h"
#include "stream/poller.h"

namespace heddle::test {
namespace {

using detail::Dependency;
using detail::FailurePtr;
using detail::Fence;

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
  return hash ^ (hash >> 29);
}

std::size_t at(int var) { return static_cast<std::size_t>(var); }

bool contains(const std::vector<int>& vars, int var) {
  return std::find(vars.begin(), vars.end(), var) != vars.end();
}

// The values of the vars. Not atomic, so that a wrong order is a data race as well as a wrong result.
struct Memory {
  std::vector<std::uint64_t> values;

  std::uint64_t gather(const StreamOp& op, int index) const {
    auto hash = static_cast<std::uint64_t>(index);
    for (int var : op.reads) hash = mix(hash, values[at(var)]);
    return hash;
  }
  void scatter(const StreamOp& op, std::uint64_t hash) {
    for (int var : op.mutates) {
      values[at(var)] = op.kind == StreamOp::Kind::copy ? values[at(op.reads[0])]
                                                        : mix(hash, static_cast<std::uint64_t>(var));
    }
  }
};

[[noreturn]] void fail(int index) { throw std::runtime_error("op " + std::to_string(index)); }

// Does the engine's part on one thread. Delays an op whose vars an earlier op still uses, and starts the
// other ops in random order.
class Driver {
 public:
  Driver(const StreamProgram& program, std::vector<std::unique_ptr<Stream>> streams, std::uint64_t seed)
      : program_(program), random_(seed), vars_(at(program.vars)), ops_(program.ops.size()) {
    memory_.values.assign(at(program.vars), 1);
    for (auto& stream : streams) {
      auto* host = dynamic_cast<HostStream*>(stream.get());
      if (host && host->stepped()) stepped_.push_back(host);
      issuers_.emplace_back(std::move(stream), poller_);
    }
  }

  StreamResult run() {
    for (;;) {
      if (!stepped_.empty() && below(2) == 0) step();
      const std::vector<int> startable = find_startable();
      const bool all_ended = first_ == static_cast<int>(ops_.size());
      if (all_ended) return result();
      const int parked = take_parked(startable.empty() && stepped_.empty());
      if (parked >= 0) resume(parked);
      if (parked < 0 && !startable.empty()) start(startable[below(startable.size())]);
    }
  }

 private:
  enum class State { waiting, parked, ended };
  struct Var {
    detail::FenceSet fences;
    FailurePtr poison;
  };
  struct Op {
    State state = State::waiting;
    detail::OpNode node;  // describes the op when its failure is made
    std::uint64_t scratch = 0;
  };
  // The driver looks for ops to start at most this many places behind the first op that is still running.
  static constexpr int kWindow = 24;

  std::size_t below(std::size_t n) { return static_cast<std::size_t>(random_() % n); }

  void step() { stepped_[below(stepped_.size())]->step(); }

  // The ops that may start: an op may share a var with an earlier op that has not ended only if each of them
  // just reads the var.
  std::vector<int> find_startable() {
    while (first_ < static_cast<int>(ops_.size()) && ops_[at(first_)].state == State::ended) ++first_;
    const int end = std::min(first_ + kWindow, static_cast<int>(ops_.size()));
    std::set<int> read, mutated;
    std::vector<int> found;
    for (int i = first_; i < end; ++i) {
      if (ops_[at(i)].state == State::ended) continue;
      const StreamOp& op = program_.ops[at(i)];
      bool free = ops_[at(i)].state == State::waiting;
      for (int var : op.reads) free = free && !mutated.count(var);
      for (int var : op.mutates) free = free && !mutated.count(var) && !read.count(var);
      if (free) found.push_back(i);
      read.insert(op.reads.begin(), op.reads.end());
      mutated.insert(op.mutates.begin(), op.mutates.end());
    }
    return found;
  }

  void start(int index) {
    const StreamOp& op = program_.ops[at(index)];
    std::vector<Dependency> after;
    for (int var : op.reads) vars_[at(var)].fences.collect(true, contains(op.mutates, var), after);
    for (int var : op.mutates) {
      if (!contains(op.reads, var)) vars_[at(var)].fences.collect(false, true, after);
    }
    const bool on_cpu = op.kind == StreamOp::Kind::cpu || poison_of_reads(op);
    if (!on_cpu && issuers_[op.stream].can_wait_for(after)) return issue(index, after);
    ops_[at(index)].state = State::parked;
    detail::when_all_done(std::move(after), [this, index] {
      std::lock_guard guard(mutex_);
      runnable_.push_back(index);
      woken_.notify_one();
    });
  }

  // Takes a parked op whose fences are done. Returns -1 if there is none. With `wait`, if nothing else can
  // happen, waits until there is one.
  int take_parked(bool wait) {
    std::unique_lock lock(mutex_);
    if (wait) woken_.wait(lock, [this] { return !runnable_.empty(); });
    if (runnable_.empty() || (!wait && below(2) == 0)) return -1;
    const int index = runnable_.front();
    runnable_.pop_front();
    return index;
  }

  void resume(int index) {
    const StreamOp& op = program_.ops[at(index)];
    const bool on_cpu = op.kind == StreamOp::Kind::cpu || poison_of_reads(op);
    return on_cpu ? run_on_cpu(index) : issue(index, {});
  }

  void run_on_cpu(int index) {
    const StreamOp& op = program_.ops[at(index)];
    FailurePtr failure;
    if (FailurePtr cause = poison_of_reads(op)) {
      failure = errors_.skipped(node(index), cause);
    } else {
      try {
        const std::uint64_t hash = memory_.gather(op, index);
        if (op.fails != StreamOp::Fails::no) fail(index);
        memory_.scatter(op, hash);
      } catch (...) {
        failure = errors_.failed(node(index), std::current_exception());
      }
    }
    for (int var : op.mutates) {
      vars_[at(var)].poison = failure;
      vars_[at(var)].fences.clear();
    }
    ops_[at(index)].state = State::ended;
  }

  void issue(int index, const std::vector<Dependency>& after) {
    const StreamOp& op = program_.ops[at(index)];
    auto body = [this, &op, index](Stream& stream) { enqueue(op, index, stream); };
    auto outcome = [this, index](std::exception_ptr own, const std::vector<FailurePtr>& inherited) {
      return outcome_of(index, std::move(own), inherited);
    };
    const Fence fence = issuers_[op.stream].issue(after, body, outcome);
    for (int var : op.mutates) {
      vars_[at(var)].poison = nullptr;
      vars_[at(var)].fences.set_write(fence);
    }
    for (int var : op.reads) {
      if (!contains(op.mutates, var)) vars_[at(var)].fences.add_read(fence);
    }
    ops_[at(index)].state = State::ended;
    issued_.push_back(fence);
  }

  // Enqueues the op's work in two pieces, so that other work could come between them.
  void enqueue(const StreamOp& op, int index, Stream& stream) {
    std::uint64_t* scratch = &ops_[at(index)].scratch;
    stream.enqueue([this, &op, index, scratch] {
      *scratch = memory_.gather(op, index);
      log(index);
      if (op.fails == StreamOp::Fails::late) fail(index);
    });
    if (op.fails == StreamOp::Fails::issuing) fail(index);
    if (op.kind == StreamOp::Kind::copy) {
      stream.copy(&memory_.values[at(op.mutates[0])], &memory_.values[at(op.reads[0])],
                  sizeof(std::uint64_t));
    } else {
      stream.enqueue([this, &op, scratch] { memory_.scatter(op, *scratch); });
    }
  }

  // Logs the op only if streams are stepped, where one thread runs everything: with threads a lock would
  // order streams which must not rely on it.
  void log(int index) {
    if (!stepped_.empty()) order_.push_back(index);
  }

  // The failure of an op. If the op reads a failed var, that var's failure replaces the op's own error, since
  // the op should not have run.
  FailurePtr outcome_of(int index, std::exception_ptr own, const std::vector<FailurePtr>& inherited) {
    if (FailurePtr cause = earliest(inherited)) return errors_.skipped(node(index), cause);
    return own ? errors_.failed(node(index), std::move(own)) : nullptr;
  }

  static FailurePtr earliest(const std::vector<FailurePtr>& failures) {
    FailurePtr first;
    for (const FailurePtr& failure : failures) {
      if (!first || failure->root->sequence < first->root->sequence) first = failure;
    }
    return first;
  }

  FailurePtr poison_of(int var) const {
    const FailurePtr failure = vars_[at(var)].fences.failure();
    return failure ? failure : vars_[at(var)].poison;
  }

  FailurePtr poison_of_reads(const StreamOp& op) const {
    std::vector<FailurePtr> failures;
    for (int var : op.reads) {
      if (FailurePtr failure = poison_of(var)) failures.push_back(failure);
    }
    return earliest(failures);
  }

  detail::OpNode& node(int index) {
    detail::OpNode& made = ops_[at(index)].node;
    made.sequence = static_cast<std::uint64_t>(index);
    return made;
  }

  void wait_for_all() {
    for (const Fence& fence : issued_) {
      while (!fence->done()) {
        if (stepped_.empty()) {
          std::this_thread::yield();
        } else {
          step();
        }
      }
    }
  }

  StreamResult result() {
    wait_for_all();
    StreamResult result{memory_.values, {}, order_};
    for (int var = 0; var < program_.vars; ++var) {
      const FailurePtr failure = poison_of(var);
      result.failed.push_back(failure ? static_cast<int>(failure->root->sequence) : -1);
      if (failure) result.values[at(var)] = 0;
    }
    return result;
  }

  const StreamProgram& program_;
  std::mt19937_64 random_;
  Memory memory_;
  detail::ErrorLog errors_;
  std::vector<Var> vars_;
  std::deque<Op> ops_;
  int first_ = 0;  // index of the first op that has not ended
  std::vector<Fence> issued_;
  std::vector<int> order_;
  std::mutex mutex_;  // guards runnable_
  std::condition_variable woken_;
  std::deque<int> runnable_;
  std::vector<HostStream*> stepped_;
  detail::Poller poller_;
  std::deque<detail::Issuer> issuers_;  // declared last and so destroyed first, which ends the streams
};

}  // namespace

StreamProgram random_stream_program(std::uint64_t seed, int ops, int vars, std::size_t streams) {
  std::mt19937_64 random(seed);
  auto below = [&](std::uint64_t n) { return static_cast<int>(random() % n); };
  StreamProgram program{vars, {}};
  for (int i = 0; i < ops; ++i) {
    const int kind = below(10);
    StreamOp op{.kind = kind < 3   ? StreamOp::Kind::cpu
                        : kind < 8 ? StreamOp::Kind::work
                                   : StreamOp::Kind::copy};
    op.stream = static_cast<std::size_t>(below(streams));
    const int fails = below(200);
    op.fails = fails == 0   ? StreamOp::Fails::issuing
               : fails == 1 ? StreamOp::Fails::late
                            : StreamOp::Fails::no;
    const int most = op.kind == StreamOp::Kind::copy ? 1 : 4;
    const int reads = most == 1 ? 1 : below(5);
    for (int n = 0; n < reads; ++n) op.reads.push_back(below(static_cast<std::uint64_t>(vars)));
    const int mutates = most == 1 ? 1 : below(3);
    for (int n = 0; n < mutates; ++n) {
      int var = below(static_cast<std::uint64_t>(vars));
      if (most == 1 && var == op.reads[0]) var = (var + 1) % vars;
      op.mutates.push_back(var);
    }
    program.ops.push_back(std::move(op));
  }
  return program;
}

StreamResult run_serially(const StreamProgram& program) {
  Memory memory{std::vector<std::uint64_t>(at(program.vars), 1)};
  std::vector<int> failed(at(program.vars), -1);
  for (int i = 0; i < static_cast<int>(program.ops.size()); ++i) {
    const StreamOp& op = program.ops[at(i)];
    int cause = -1;
    for (int var : op.reads) {
      const int poison = failed[at(var)];
      if (poison >= 0 && (cause < 0 || poison < cause)) cause = poison;
    }
    if (cause < 0 && op.fails != StreamOp::Fails::no) cause = i;
    if (cause < 0) memory.scatter(op, memory.gather(op, i));
    for (int var : op.mutates) failed[at(var)] = cause;
  }
  for (int var = 0; var < program.vars; ++var) {
    if (failed[at(var)] >= 0) memory.values[at(var)] = 0;
  }
  return {memory.values, failed};
}

StreamResult run_on_streams(const StreamProgram& program, std::vector<std::unique_ptr<Stream>> streams,
                            std::uint64_t seed) {
  return Driver(program, std::move(streams), seed).run();
}

}  // namespace heddle::test
