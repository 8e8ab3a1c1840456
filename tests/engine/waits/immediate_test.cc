// Immediate ops, which run on whatever thread makes them ready.
#include <atomic>
#include <exception>
#include <functional>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/engine.h>

using namespace heddle;

namespace {

struct Immediate {
  static constexpr bool immediate = true;
  std::function<void(Completion)> then;
  std::function<void()> instead{};
  void operator()(RunContext&, Completion done) const { then(std::move(done)); }
  void skipped(const std::exception_ptr&) const noexcept {
    if (instead) instead();
  }
};

Engine one_worker() { return Engine({.scheduler = Scheduler::threaded, .workers = 1}); }

}  // namespace

TEST_CASE("immediate: starts while all workers are busy, on the thread that pushes it") {
  Engine engine = one_worker();
  const Var busy = engine.new_var(), free = engine.new_var();
  std::promise<void> started, release;
  engine.push(
      [&] {
        started.set_value();
        release.get_future().wait();
      },
      {.mutate = {busy}});
  started.get_future().wait();
  std::thread::id where;
  engine.push_async(Immediate{[&](Completion done) {
                      where = std::this_thread::get_id();
                      done.done();
                    }},
                    {.mutate = {free}});
  CHECK(where == std::this_thread::get_id());
  engine.wait(free);
  release.set_value();
  engine.wait_all();
}

TEST_CASE(
    "immediate: not before the ops that it comes after, and then while the only worker goes on with others") {
  Engine engine = one_worker();
  const Var a = engine.new_var(), other = engine.new_var();
  std::promise<void> entered, release, ended;
  std::atomic<int> value{0};
  int seen = -1;
  engine.push(
      [&] {
        entered.set_value();
        release.get_future().wait();
        value = 1;
      },
      {.mutate = {a}});
  entered.get_future().wait();
  engine.push_async(Immediate{[&](Completion done) {
                      seen = value;
                      done.done();
                      ended.set_value();
                    }},
                    {.read = {a}});
  CHECK(seen == -1);
  // The only worker takes this op before `a` is free, and blocks in it until the immediate op has run.
  engine.push([&] { ended.get_future().wait(); }, {.mutate = {other}});
  release.set_value();
  engine.wait_all();
  CHECK(seen == 1);
}

TEST_CASE("immediate: a long chain of them that end at once, or are skipped, needs no deep stack") {
  Engine engine = one_worker();
  const Var a = engine.new_var(), gate = engine.new_var();
  constexpr int kOps = 200'000;
  for (const bool fails : {false, true}) {
    std::promise<void> release;
    int ran = 0, skipped = 0;
    engine.push(
        [&] {
          release.get_future().wait();
          if (fails) throw std::runtime_error("burnt");
        },
        {.mutate = {a}});
    for (int i = 0; i < kOps; ++i) {
      engine.push_async(Immediate{[&](Completion done) {
                                    ++ran;
                                    done.done();
                                  },
                                  [&] { ++skipped; }},
                        {.read = {a}, .mutate = {a}});
    }
    release.set_value();
    if (fails) {
      CHECK_THROWS_WITH(engine.wait(a), doctest::Contains("burnt"));
      engine.clear_error(a);
    } else {
      engine.wait(a);
    }
    CHECK(ran == (fails ? 0 : kOps));
    CHECK(skipped == (fails ? kOps : 0));
  }
}

TEST_CASE(
    "immediate: started by the thread that completes what it comes after, however many engines are in "
    "between") {
  Engine first = one_worker(), second = one_worker();
  const Var a = first.new_var(), b = second.new_var();
  std::vector<Completion> kept;
  std::atomic<int> started{0};
  const auto keep = [&](Completion done) {
    kept.push_back(std::move(done));
    ++started;
  };
  first.push_async(Immediate{keep}, {.mutate = {a}});
  while (started < 1) std::this_thread::yield();  // waits, since an idle worker may have taken the op
  second.push_async(Immediate{keep}, {.mutate = {b}});
  while (started < 2) std::this_thread::yield();
  int order = 0;
  first.push_async(Immediate{[&](Completion done) {
                     CHECK(++order == 1);
                     // Makes the other engine's next op ready, which starts only after this op has returned.
                     kept[1].done();
                     CHECK(++order == 2);
                     done.done();
                   }},
                   {.read = {a}});
  second.push_async(Immediate{[&](Completion done) {
                      CHECK(++order == 3);
                      done.done();
                    }},
                    {.read = {b}});
  kept[0].done();
  CHECK(order == 3);
  first.wait_all();
  second.wait_all();
}

TEST_CASE("immediate: what they throw, and what throws before them, arrives as with any op") {
  for (const Scheduler scheduler : {Scheduler::threaded, Scheduler::naive, Scheduler::fuzz}) {
    Engine engine({.scheduler = scheduler, .workers = 1});
    const Var a = engine.new_var();
    engine.push_async(Immediate{[](Completion) { throw std::runtime_error("raw"); }}, {.mutate = {a}});
    CHECK_THROWS_WITH(engine.wait(a), doctest::Contains("raw"));
    bool told = false;
    engine.push_async(Immediate{[](Completion done) { done.done(); }, [&] { told = true; }}, {.read = {a}});
    engine.clear_error(a);
    engine.wait(a);
    CHECK(told);
    engine.wait_all();
  }
}
