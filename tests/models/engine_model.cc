// The threaded engine, the product's own, whole: what a user's threads may rely on, in any schedule.
#include "model.h"
#include "product_engine.h"

namespace {

using heddle::Completion;
using heddle::Engine;
using heddle::RunContext;
using heddle::Var;
using model::check;
using model::Plain;

// User threads with one engine. The first makes it, and ends it when all are done. A deadlock is found by Relacy: all
// threads sleep and the schedule has not ended.
template <class Derived, int Users, int Workers = 2, int Spare = 0>
struct Program : model::Schedule<Derived, Users, Workers + Spare> {
  std::optional<Engine> engine;
  model_std::atomic<int> made{0}, left{Users};

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
    auto& core = static_cast<heddle::detail::ThreadedCore&>(engine->core());
    core.retain();
    engine.reset();
    at_rest(core);
    core.release();
  }
  // Every thread of the crew leaves as a searcher, without a seat; nobody sleeps or thinks that he runs all short ops.
  void at_rest(heddle::detail::ThreadedCore& core) {
    check(core.parking_.searchers_.load() == static_cast<int>(core.crew_.threads_.size()),
          "searchers are miscounted");
    check(core.parking_.sleepers_.load() == 0, "sleepers are miscounted");
    check(core.seats_.all_free() && !core.crew_.wanted(), "a seat is lost");
    check(!core.short_runner_.load(), "the short runner has gone and is still there");
  }
  void set(heddle::EngineOptions&) {}
  void begin() {}
  void end() {}
};

// Each user adds to what they share and reads it into something of his own, which he waits for.
template <int Workers> struct SharedVar : Program<SharedVar<Workers>, 2, Workers> {
  Var shared, own[2];
  Plain<int> sum, seen[2];

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

// wait_all waits for all that its thread has pushed, whatever other threads' wait_all does meanwhile.
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

// ... and for what those ops push, and so on.
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

// An op is over when both its function and its Completion are, whichever comes last.
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
      model::dawdle(100);
      Completion mine = *std::exchange(completion, std::nullopt);
      return mine.done();
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

// The same with an op of another priority behind it, and nobody but a sleeping worker to run that.
struct Urgent : Program<Urgent, 2, 1> {
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

// With room for one op, who pushes another waits until there is room.
struct Bounded : Program<Bounded, 2, 1> {
  Plain<int> inside, done[2];

  void set(heddle::EngineOptions& options) { options.max_ops = 1; }
  void user(int index) {
    for (int i = 0; i < 2; ++i) {
      engine->push([this, index] {
        inside.set(inside.get() + 1);  // a race if two ops were admitted at once
        done[index].set(done[index].get() + 1);
      });
    }
    engine->wait_all();
    check(done[index].get() == 2, "wait_all returned early");
  }
};

// An op waits for another while there is one worker: a spare thread runs it, and gives the seat back.
struct NestedWait : Program<NestedWait, 1, 1, 1> {
  Var inner, outer;
  Plain<int> value, result;

  void user(int) {
    inner = engine->new_var();
    outer = engine->new_var();
    engine->push(
        [this] {
          engine->push([this] { value.set(1); }, {.mutate = {inner}});
          engine->wait(inner);
          result.set(value.get() + 1);
        },
        {.mutate = {outer}});
    engine->wait(outer);
    check(result.get() == 2, "a wait inside an op returned early");
    inner = outer = Var();
  }
};

// Ops so short that one runner does them all, and one that is not.
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

// The error of an op reaches the wait behind it, and an op that overwrites the var clears it.
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

}  // namespace

int main(int argc, char** argv) {
  using model::random_program;
  return model::run_models(
      argc, argv,
      {random_program<SharedVar<1>>("shared var, 1 worker"),
       random_program<SharedVar<2>>("shared var, 2 workers"), random_program<WaitAll<1, 2>>("wait_all"),
       random_program<WaitAll<2, 1>>("wait_all by two"),
       random_program<WaitAll<2, 2>>("wait_all by two, twice"),
       random_program<WaitAllNested>("wait_all, nested"), random_program<Async>("asynchronous"),
       random_program<Urgent>("another priority"), random_program<Bounded>("room for one op"),
       random_program<NestedWait>("wait inside an op"), random_program<ShortOps>("short ops"),
       random_program<Loop>("parallel loop"), random_program<Poison>("poison")},
      {"EngineCore::execute_async fetch_sub release", "complete fetch_sub acquire",
       "EngineCore::signal store relaxed", "Parking::end_search fetch_sub acq_rel"});
}
