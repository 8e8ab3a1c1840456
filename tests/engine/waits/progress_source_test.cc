// Progress sources, by which a waiting thread helps to complete asynchronous ops.
#include <atomic>
#include <cstdint>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/engine.h>

using namespace heddle;

namespace {

// A source that completes its ops only when a waiting thread calls it.
class Held final : public ProgressSource {
 public:
  void hold(const Var& var, Completion done) {
    std::lock_guard guard(mutex_);
    held_.emplace_back(var, std::move(done));
  }
  // Returns when the source holds `count` ops.
  void await(std::size_t count) {
    for (;; std::this_thread::yield()) {
      std::lock_guard guard(mutex_);
      if (held_.size() >= count) return;
    }
  }
  void progress_until(const Var& var, const std::atomic<std::uint32_t>&) noexcept override {
    ++calls_;
    where_ = std::this_thread::get_id();
    std::vector<Completion> ended;
    {
      std::lock_guard guard(mutex_);
      for (auto& [of, done] : held_) {
        if (!var || of == var) ended.push_back(std::move(done));
      }
      std::erase_if(held_, [&](const auto& one) { return !var || one.first == var; });
    }
    for (Completion& done : ended) done.done();
  }
  int calls() const { return calls_; }
  std::thread::id where() const { return where_; }

 private:
  std::mutex mutex_;
  std::vector<std::pair<Var, Completion>> held_;
  int calls_ = 0;
  std::thread::id where_;
};

// A source that completes nothing, and blocks the thread that calls it until that thread's wait is over.
class UntilOver final : public ProgressSource {
 public:
  void progress_until(const Var&, const std::atomic<std::uint32_t>& over) noexcept override { over.wait(0); }
};

Engine two_workers() { return Engine({.scheduler = Scheduler::threaded, .workers = 2}); }

struct Immediately {
  static constexpr bool immediate = true;
  Held& held;
  Var var;
  void operator()(RunContext&, Completion done) const { held.hold(var, std::move(done)); }
};

struct Started {
  static constexpr bool immediate = true;
  std::optional<Completion>& completion;
  void operator()(RunContext&, Completion done) const { completion.emplace(std::move(done)); }
};

}  // namespace

TEST_CASE("progress_source: a wait makes it end what is waited for, on the thread that waits") {
  Engine engine = two_workers();
  const auto held = std::make_shared<Held>();
  engine.add_progress_source(held);
  const Var a = engine.new_var(), b = engine.new_var();
  engine.push_async(Immediately{*held, a}, {.mutate = {a}});
  engine.push_async(Immediately{*held, b}, {.mutate = {b}});
  // Both ops have to be held before the wait: it calls the source once, and only the source completes them.
  held->await(2);
  int after = 0;
  engine.push([&] { after = 1; }, {.mutate = {a}});
  engine.wait(a);
  CHECK(after == 1);
  CHECK(held->calls() == 1);
  CHECK(held->where() == std::this_thread::get_id());
  engine.wait(b);
  CHECK(held->calls() == 2);
}

TEST_CASE("progress_source: wait_all makes it end everything") {
  Engine engine = two_workers();
  const auto held = std::make_shared<Held>();
  engine.add_progress_source(held);
  const Var a = engine.new_var(), b = engine.new_var();
  engine.push_async(Immediately{*held, a}, {.mutate = {a}});
  engine.push_async(Immediately{*held, b}, {.mutate = {b}});
  held->await(2);
  int after = 0;
  engine.push([&] { ++after; }, {.read = {a, b}});
  engine.wait_all();
  CHECK(after == 1);
  CHECK(held->calls() == 1);
  CHECK(held->where() == std::this_thread::get_id());
}

TEST_CASE("progress_source: one that blocks until wait_all is over does not delay it") {
  Engine engine = two_workers();
  const auto blocking = std::make_shared<UntilOver>();
  engine.add_progress_source(blocking);
  const Var a = engine.new_var();
  std::optional<Completion> completion;
  for (int i = 0; i < 200; ++i) {
    std::promise<void> started;
    engine.push_async(
        [&](RunContext&, Completion done) {
          completion.emplace(std::move(done));
          started.set_value();
        },
        {.mutate = {a}});
    std::thread other([&] {
      started.get_future().wait();
      completion->done();
    });
    engine.wait_all();
    other.join();
  }
}

TEST_CASE("progress_source: one that blocks until a wait is over does not delay the wait") {
  Engine engine = two_workers();
  const auto blocking = std::make_shared<UntilOver>();
  engine.add_progress_source(blocking);
  const Var a = engine.new_var();
  int runs = 0;
  for (int i = 0; i < 200; ++i) {
    engine.wait(a);  // `a` is ready, so the wait does not need the source
    engine.push([&] { ++runs; }, {.mutate = {a}});
    engine.wait(a);  // a worker runs the op, so the wait does not need the source
    CHECK(runs == i + 1);
  }
}

TEST_CASE("progress_source: a wait inside an op does not ask, since the op has a slot that others need") {
  Engine engine({.scheduler = Scheduler::threaded, .workers = 1});
  const auto held = std::make_shared<Held>();
  engine.add_progress_source(held);
  const Var a = engine.new_var(), outer = engine.new_var();
  std::optional<Completion> completion;
  std::promise<void> inside, all;
  engine.push_async(Started{completion}, {.mutate = {a}});
  engine.push(
      [&] {
        inside.set_value();
        engine.wait(a);
      },
      {.mutate = {outer}});
  inside.get_future().wait();
  // Can run only when the op that waits has released its slot. Ends that op's wait.
  engine.push([&] { completion->done(); });
  engine.push([&] { all.set_value(); }, {.mutate = {outer}});
  all.get_future().wait();
  CHECK(held->calls() == 0);
}

TEST_CASE("progress_source: one that is gone is not asked") {
  Engine engine = two_workers();
  auto held = std::make_shared<Held>();
  engine.add_progress_source(held);
  held.reset();
  const Var a = engine.new_var();
  int value = 0;
  engine.push([&] { value = 1; }, {.mutate = {a}});
  engine.wait(a);
  CHECK(value == 1);
}
