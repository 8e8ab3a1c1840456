// Model of the whole threaded engine: checks its guarantees to user threads in any schedule.
#include "model.h"
#include "product_engine.h"

namespace {

using heddle::Completion;
using heddle::Engine;
using heddle::HostStream;
using heddle::HostStreamOptions;
using heddle::RunContext;
using heddle::Stream;
using heddle::Var;
using model::check;
using model::Plain;

// User threads with one engine. Thread 0 creates it, and destroys it when all users are done. Relacy reports
// a deadlock if all threads sleep before that.
template <class Derived, int Users, int Workers = 2, int Spare = 0>
struct Program : model::Schedule<Derived, Users, Workers + Spare> {
  std::optional<Engine> engine;
  model_std::atomic<int> made{0}, left{Users};

  Program() { heddle::detail::forget_threads(); }
  void thread(unsigned index) {
    auto& self = static_cast<Derived&>(*this);
    if (index == 0) {
      model::threads_left = Workers + Spare;
      heddle::EngineOptions options{.scheduler = heddle::Scheduler::threaded, .workers = Workers};
      self.set(options);
      engine.emplace(options);
      self.begin();
      made.store(1);
      made.notify_all();
    } else {
      made.wait(0);
    }
    model::dawdle(150);
    self.user(static_cast<int>(index));
    left.fetch_sub(1);
    left.notify_all();
    if (index != 0) return;
    while (int users = left.load()) left.wait(users);
    self.end();
    heddle::detail::EngineCore& core = engine->core();
    core.retain();
    engine.reset();
    at_rest(static_cast<heddle::detail::ThreadedScheduler&>(core.scheduler()));
    core.release();
  }
  // At the end every thread of the pool is a searcher without a slot; none is parked, and none is the
  // exclusive worker for short ops.
  void at_rest(heddle::detail::ThreadedScheduler& scheduler) {
    check(scheduler.idle_workers_.searchers_.load() == static_cast<int>(scheduler.pool_.threads_.size()),
          "searchers are miscounted");
    check(scheduler.idle_workers_.parked_count_.load() == 0, "parked threads are miscounted");
    check(scheduler.slots_.all_free() && !scheduler.pool_.slot_wanted(), "a slot is lost");
    check(!scheduler.exclusive_worker_.load(), "the short worker has gone and is still there");
  }
  void set(heddle::EngineOptions&) {}
  void begin() {}
  void end() {}
};

constexpr double kShortSpin = 1e-6;  // seconds for which workers spin: a few clock reads in any schedule

// Each user thread adds to the data of a shared var, copies it to the data of its own var, and waits for that
// var.
template <int Workers, bool Spins = false> struct SharedVar : Program<SharedVar<Workers, Spins>, 2, Workers> {
  Var shared, own[2];
  Plain<int> sum, seen[2];

  void set(heddle::EngineOptions& options) { options.spin = Spins ? kShortSpin : 0; }
  void begin() {
    shared = this->engine->new_var();
    for (Var& var : own) var = this->engine->new_var();
  }
  void user(int index) {
    this->engine->push([&] { sum.set(sum.get() + 1); }, {.mutate = {shared}});
    this->engine->push([this, index] { seen[index].set(sum.get()); },
                       {.read = {shared}, .mutate = {own[index]}});
    this->engine->wait(own[index]);
    check(seen[index].get() >= 1, "an op ran before one pushed earlier");
  }
  void end() {
    this->engine->wait_all();
    check(sum.get() == 2, "an op is lost");
    shared = own[0] = own[1] = Var();
  }
};

// wait_all waits for all ops that its thread has pushed, whatever other threads' calls of wait_all do.
template <int Users, int Each> struct WaitAll : Program<WaitAll<Users, Each>, Users, 1> {
  Plain<int> done[Users];

  void user(int index) {
    for (int i = 1; i <= Each; ++i) {
      this->engine->push([this, index] { done[index].set(done[index].get() + 1); });
      this->engine->wait_all();
      check(done[index].get() == i, "wait_all returned early");
    }
  }
};

// wait_all also waits for ops that are pushed by the ops for which it waits.
struct WaitAllNested : Program<WaitAllNested, 1, 2> {
  Plain<int> left{4};

  void push_one() {
    engine->push([this] {
      left.set(left.get() - 1);
      if (left.get() > 0) push_one();
    });
  }
  void user(int) {
    push_one();
    engine->wait_all();
    check(left.get() == 0, "wait_all returned early");
  }
};

// An asynchronous op ends when its function has returned and its Completion was called, in either order.
struct Async : Program<Async, 2, 1> {
  Var var;
  Plain<int> written, read;
  std::optional<Completion> completion;
  model_std::atomic<int> handed{0};

  void begin() { var = engine->new_var(); }
  void user(int index) {
    if (index == 1) {
      handed.wait(0);
      written.set(1);
      model::dawdle(rl::rand(2) == 0 ? 4 : 100);  // completes the op while its function returns, or later
      Completion worker_context = *std::exchange(completion, std::nullopt);
      return worker_context.done();
    }
    engine->push_async(
        [this](RunContext&, Completion given) {
          completion.emplace(std::move(given));
          handed.store(1);
          handed.notify_all();
        },
        {.mutate = {var}});
    engine->push([this] { read.set(written.get() + 1); }, {.read = {var}});
    engine->wait_all();
    check(read.get() == 2, "what an asynchronous op wrote is not seen");
    var = Var();
  }
};

// An asynchronous op, which another thread completes, is followed by an op of another priority. A sleeping
// worker must be woken to run it.
struct AnotherPriority : Program<AnotherPriority, 2, 1> {
  Var var;
  Plain<bool> ran{false};
  std::optional<Completion> completion;
  model_std::atomic<int> handed{0};

  void begin() { var = engine->new_var(); }
  void user(int index) {
    if (index == 1) {
      handed.wait(0);
      model::dawdle(100);
      Completion given = *std::exchange(completion, std::nullopt);
      return given.done();
    }
    engine->push_async(
        [this](RunContext&, Completion given) {
          completion.emplace(std::move(given));
          handed.store(1);
          handed.notify_all();
        },
        {.mutate = {var}});
    engine->push([this] { ran.set(true); }, {.read = {var}, .priority = 1});
    engine->wait_all();
    check(ran.get(), "wait_all returned early");
    var = Var();
  }
};

// With max_ops = 1 a push waits until the previous op has ended.
struct Bounded : Program<Bounded, 2, 1> {
  Plain<int> inside, done[2];

  void set(heddle::EngineOptions& options) { options.max_ops = 1; }
  void user(int index) {
    for (int i = 0; i < 2; ++i) {
      engine->push([this, index] {
        inside.set(inside.get() + 1);  // Relacy reports a data race if two ops are admitted at once
        done[index].set(done[index].get() + 1);
      });
    }
    engine->wait_all();
    check(done[index].get() == 2, "wait_all returned early");
  }
};

// An op on the only worker waits for another op. A spare thread must run that op, and then release the worker
// slot, so that the waiting op can go on.
template <bool Spins> struct NestedWait : Program<NestedWait<Spins>, 1, 1, 1> {
  Var inner, outer;
  Plain<int> value, result;

  void set(heddle::EngineOptions& options) { options.spin = Spins ? kShortSpin : 0; }
  void user(int) {
    Engine* const running = &*this->engine;
    inner = running->new_var();
    outer = running->new_var();
    running->push(
        [this, running] {
          running->push([this] { value.set(1); }, {.mutate = {inner}});
          running->wait(inner);
          result.set(value.get() + 1);
        },
        {.mutate = {outer}});
    running->wait(outer);
    check(result.get() == 2, "a wait inside an op returned early");
    inner = outer = Var();
  }
};

// Short ops, all of which one exclusive worker runs, together with an op that is not short.
struct ShortOps : Program<ShortOps, 1, 2> {
  Var var;
  Plain<int> count;

  void user(int) {
    var = engine->new_var();
    for (int i = 0; i < 5; ++i) engine->push([this] { count.set(count.get() + 1); }, {.mutate = {var}});
    engine->push([] {});
    engine->wait(var);
    check(count.get() == 5, "wait returned early");
    var = Var();
  }
};

struct Loop : Program<Loop, 1, 2, 1> {
  Var var;
  Plain<int> chunks[3];

  void user(int) {
    var = engine->new_var();
    engine->push(
        [this] {
          heddle::parallel_for(
              3, 1, [this](std::int64_t at, std::int64_t) { chunks[at].set(chunks[at].get() + 1); });
          for (auto& chunk : chunks) check(chunk.get() == 1, "a chunk did not run once");
        },
        {.mutate = {var}});
    engine->wait(var);
    var = Var();
  }
};

// An op's error reaches a wait on its var, and an op that overwrites the var clears it.
struct Poison : Program<Poison, 1, 2> {
  Var var;

  void user(int) {
    var = engine->new_var();
    engine->push([] { throw 7; }, {.mutate = {var}});
    engine->push([] { check(false, "an op ran on a poisoned var"); }, {.read = {var}});
    int caught = 0;
    try {
      engine->wait(var);
    } catch (int thrown) {
      caught = thrown;
    }
    check(caught == 7, "the error is lost");
    engine->push([] {}, {.mutate = {var}});
    engine->wait(var);
    var = Var();
  }
};

// If an op is skipped because its group was cancelled, the data written before cancel() is visible.
struct Cancel : Program<Cancel, 2, 1> {
  Var var;
  heddle::Group group;
  Plain<int> reason;
  Plain<bool> ran{false};

  void begin() { var = engine->new_var(); }
  void user(int index) {
    if (index == 1) {
      reason.set(1);
      return group.cancel();
    }
    engine->push([this] { ran.set(true); }, {.mutate = {var}, .group = group});
    bool cancelled = false;
    try {
      engine->wait(var);
    } catch (const heddle::Cancelled&) {
      cancelled = true;
    }
    check(ran.get() != cancelled, "an op is neither run nor cancelled, or both");
    if (cancelled) check(reason.get() == 1, "what was written before cancel() is not seen");
    var = Var();
  }
};

// In every launch the ops of a graph run once, each after the ops that it depends on.
struct Launches : Program<Launches, 1, 2> {
  Var left_var, right_var, sum_var;
  Plain<int> left_value, right_value, sum;

  void user(int) {
    left_var = engine->new_var();
    right_var = engine->new_var();
    sum_var = engine->new_var();
    heddle::Graph graph = engine->capture([this] {
      engine->push([this] { left_value.set(left_value.get() + 1); }, {.mutate = {left_var}});
      engine->push([this] { right_value.set(right_value.get() + 1); }, {.mutate = {right_var}});
      engine->push([this] { sum.set(sum.get() + left_value.get() * right_value.get()); },
                   {.read = {left_var, right_var}, .mutate = {sum_var}});
    });
    graph.launch();
    graph.launch();
    engine->wait(sum_var);
    check(sum.get() == 5, "a graph's op ran too early, or not");
    graph = {};
    left_var = right_var = sum_var = Var();
  }
};

// An op of a graph waits for another op, and may go on without a worker slot. The ops of the graph that it
// makes ready must then run on other threads.
struct WaitInGraph : Program<WaitInGraph, 1, 2, 1> {
  Var inner, var, last;
  Plain<int> value, result;

  void user(int) {
    inner = engine->new_var();
    var = engine->new_var();
    last = engine->new_var();
    heddle::Graph graph = engine->capture([this] {
      engine->push(
          [this] {
            engine->push([this] { value.set(1); }, {.mutate = {inner}});
            engine->wait(inner);
          },
          {.mutate = {var}});
      engine->push([this] { result.set(value.get() + 1); }, {.read = {var}, .mutate = {last}});
      engine->push([] {}, {.read = {var}});
    });
    graph.launch();
    engine->wait_all();
    check(result.get() == 2, "an op of a graph is lost");
    graph = {};
    inner = var = last = Var();
  }
};

// A chain of ops on two streams and on the CPU, each of which runs after the previous one. CallsBack: whether
// streams report the end of work by callbacks; otherwise one more thread polls them. Alone: whether a stream
// is unable to wait for events of other streams.
template <bool CallsBack, bool Alone>
struct Streams : Program<Streams<CallsBack, Alone>, 1, 1, CallsBack ? 2 : 3> {
  Var x, y;
  Plain<int> from_a, from_b, result;

  Stream& stream() {
    const HostStreamOptions options{.calls_back = CallsBack, .alone = Alone};
    return this->engine->adopt_stream(
        std::make_unique<HostStream>(heddle::cpu(), heddle::Lane::compute, options));
  }
  void user(int) {
    Engine& all = *this->engine;
    Stream &a = stream(), &b = stream();
    x = all.new_var();
    y = all.new_var();
    auto work = [](auto fn) { return [fn](Stream& on) { on.enqueue(fn); }; };
    all.push_on(a, work([this] { from_a.set(1); }), {.mutate = {x}});
    all.push_on(a, work([this] { from_a.set(from_a.get() + 1); }), {.read = {x}, .mutate = {x}});
    all.push_on(b, work([this] { from_b.set(from_a.get() + 1); }), {.read = {x}, .mutate = {y}});
    all.push([this] { from_a.set(from_b.get() + 1); }, {.read = {y}, .mutate = {x}});
    all.push_on(b, work([this] { result.set(from_a.get() + from_b.get()); }), {.read = {x}, .mutate = {y}});
    x = Var();
    all.wait(y);
    check(result.get() == 7, "an op ran before what it comes after was done");
    y = Var();
  }
};

// Two threads push ops on one stream, whose issue gate they share, or on one stream each; the ops read a
// common var.
template <bool Shared> struct Readers : Program<Readers<Shared>, 2, 2, Shared ? 1 : 2> {
  Var source_var, own[2];
  Stream* streams[2] = {};
  Plain<int> inside[2], source, seen[2];

  void begin() {
    for (Stream*& stream : streams)
      stream = &this->engine->stream(heddle::cpu(Shared ? 0 : &stream - streams));
    source_var = this->engine->new_var();
    for (Var& var : own) var = this->engine->new_var();
  }
  void user(int index) {
    Plain<int>& in_stream = inside[Shared ? 0 : index];
    this->engine->push_on(*streams[index],
                          [&in_stream, this, index](Stream& on) {
                            // Relacy reports a data race if two threads issue at once.
                            in_stream.set(in_stream.get() + 1);
                            on.enqueue([this, index] { seen[index].set(source.get() + 1); });
                          },
                          {.read = {source_var}, .mutate = {own[index]}});
    if (index == 0) write();
    this->engine->wait(own[index]);
    check(seen[index].get() >= 1, "wait returned early");
  }
  void write() {
    this->engine->push_on(*streams[1],
                          [this](Stream& on) { on.enqueue([this] { source.set(source.get() + 1); }); },
                          {.mutate = {source_var}});
  }
  void end() {
    this->engine->wait_all();
    check(source.get() == 1 && seen[0].get() == 1, "an op is lost, or ran too early or late");
    source_var = own[0] = own[1] = Var();
  }
};

// The error of an op on a stream reaches the op on another stream that reads its result, the CPU op after
// that, and the waits for the vars.
struct StreamError : Program<StreamError, 1, 1, 2> {
  Var x, y, z;

  void user(int) {
    Stream &a = engine->make_stream(heddle::cpu()), &b = engine->make_stream(heddle::cpu());
    x = engine->new_var();
    y = engine->new_var();
    z = engine->new_var();
    engine->push_on(a, [](Stream& on) { on.enqueue([] { throw 7; }); }, {.mutate = {x}});
    engine->push_on(b, [](Stream&) {}, {.read = {x}, .mutate = {y}});
    engine->push([] { check(false, "an op ran on a poisoned var"); }, {.read = {y}, .mutate = {z}});
    for (const Var& var : {z, x}) check(error(var) == 7, "the error is lost");
    engine->push_on(b, [](Stream&) {}, {.mutate = {x}});
    check(error(x) == 0, "an error outlives what overwrites it");
    x = y = z = Var();
  }
  int error(const Var& var) {
    int caught = 0;
    try {
      engine->wait(var);
    } catch (int thrown) {
      caught = thrown;
    }
    return caught;
  }
};

}  // namespace

int main(int argc, char** argv) {
  using model::random_program;
  return model::run_models(
      argc, argv,
      {random_program<SharedVar<1>>("shared var, 1 worker"),
       random_program<SharedVar<2>>("shared var, 2 workers"),
       random_program<SharedVar<2, true>>("shared var, 2 workers that spin"),
       random_program<WaitAll<1, 2>>("wait_all"),
       random_program<WaitAll<2, 1>>("wait_all by two"),
       random_program<WaitAll<2, 2>>("wait_all by two, twice"),
       random_program<WaitAllNested>("wait_all, nested"),
       random_program<Async>("asynchronous"),
       random_program<AnotherPriority>("another priority"),
       random_program<Bounded>("room for one op"),
       random_program<NestedWait<false>>("wait inside an op"),
       random_program<NestedWait<true>>("wait inside an op, workers that spin"),
       random_program<ShortOps>("short ops"),
       random_program<Loop>("parallel loop"),
       random_program<Poison>("poison"),
       random_program<Cancel>("cancelled group"),
       random_program<Launches>("graph"),
       random_program<WaitInGraph>("wait in a graph"),
       random_program<Streams<true, false>>("streams"),
       random_program<Streams<true, true>>("streams, each alone"),
       random_program<Streams<false, false>>("streams, polled"),
       random_program<Readers<true>>("readers on one stream"),
       random_program<Readers<false>>("readers on two streams"),
       random_program<StreamError>("error on a stream")},
      {"EngineCore::run_async fetch_sub release", "report fetch_sub acquire", "announce store release",
       "PriorityQueue::publish store release", "ReadyQueue::publish store release",
       "IdleWorkers::end_search fetch_sub acq_rel", "WorkerSlots::release fetch_add acq_rel",
       "Group::cancel store relaxed", "release_next fetch_sub acquire",
       "ParallelLoops::leave fetch_sub acquire", "FenceState::arrive fetch_sub acquire",
       "FenceState::complete_fence store relaxed"});
}
