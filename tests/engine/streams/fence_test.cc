// The rules of fences, one in each test: the order of ops, the propagation of errors, and the reuse of
// events.
#include <algorithm>
#include <atomic>
#include <latch>
#include <stdexcept>
#include <thread>

#include <doctest/doctest.h>

#include <heddle/error.h>

#include "stream/issue_gate.h"
#include "stream_rig.h"

namespace heddle::test {
namespace {

// Two streams that advance only when the test steps them, and vars.
struct TwoStreams : StreamRig {
  TwoStreams() : a(add_host({.stepped = true})), b(add_host({.stepped = true})) {}
  ~TwoStreams() { finish(); }
  HostStream& a;
  HostStream& b;
  FenceSet x, y;
  std::string log;
  std::function<void()> note(char c) {
    return [this, c] { log += c; };
  }
};

void run_dry(HostStream& stream) {
  while (stream.step()) {
  }
}

TEST_CASE("an op on the same stream is issued at once and waits for nothing") {
  TwoStreams streams;
  const Fence first = streams.run(0, "first", {}, {&streams.x}, streams.note('1'));
  const Fence second = streams.run(0, "second", {&streams.x}, {&streams.x}, streams.note('2'));
  CHECK(streams.log.empty());
  CHECK(streams.a.run_one());  // runs the work of "first"
  CHECK(streams.a.run_one());  // records the event of "first"
  // Runs the work of "second", although nobody has reported that "first" is complete.
  CHECK(streams.a.run_one());
  CHECK(streams.log == "12");
  CHECK_FALSE(first->done());
  run_dry(streams.a);
  CHECK(first->done());
  CHECK(second->done());
}

TEST_CASE("a stream that cannot wait for another one says so, until there is nothing to wait for") {
  StreamRig streams;
  HostStream& a = streams.add_host({.stepped = true, .alone = true});
  streams.add_host({.stepped = true});
  FenceSet x;
  streams.run(0, "write", {}, {&x}, [] {});
  std::vector<Dependency> after;
  x.collect(true, false, after);
  CHECK(streams.issuer(0).can_wait_for(after));
  CHECK_FALSE(streams.issuer(1).can_wait_for(after));
  run_dry(a);
  CHECK(streams.issuer(1).can_wait_for(after));
}

TEST_CASE("a read on another stream comes after the write, without the host") {
  TwoStreams streams;
  streams.run(0, "write", {}, {&streams.x}, streams.note('w'));
  streams.run(1, "read", {&streams.x}, {}, streams.note('r'));
  CHECK_FALSE(streams.b.step());  // "read" is issued, but its stream waits for the event of stream a
  CHECK(streams.a.run_one());
  CHECK(streams.a.run_one());
  CHECK_FALSE(streams.b.step());  // the work of "write" has run, but its event is not complete
  CHECK(streams.a.complete_one());
  run_dry(streams.b);
  CHECK(streams.log == "wr");
}

TEST_CASE("a write on another stream comes after every read since the last write") {
  TwoStreams streams;
  HostStream& c = streams.add_host({.stepped = true});
  streams.run(0, "read on a", {&streams.x}, {}, streams.note('a'));
  streams.run(1, "read on b", {&streams.x}, {}, streams.note('b'));
  streams.run(2, "write", {}, {&streams.x}, streams.note('w'));
  run_dry(streams.a);
  run_dry(c);
  CHECK(streams.log == "a");
  run_dry(streams.b);
  run_dry(c);
  CHECK(streams.log == "abw");
}

TEST_CASE("reads on several streams do not wait for one another") {
  TwoStreams streams;
  streams.run(0, "one", {&streams.x}, {}, streams.note('1'));
  streams.run(1, "other", {&streams.x}, {}, streams.note('2'));
  run_dry(streams.b);
  CHECK(streams.log == "2");
}

TEST_CASE("an op on the CPU runs when the event has completed, not before") {
  TwoStreams streams;
  streams.run(0, "write", {}, {&streams.x}, streams.note('w'));
  when_free(streams.x, true, false, streams.note('c'));
  CHECK(streams.a.run_one());
  CHECK(streams.a.run_one());
  CHECK(streams.log == "w");
  CHECK(streams.a.complete_one());
  CHECK(streams.log == "wc");
}

TEST_CASE("an op on the CPU that only reads does not wait for reads on streams; one that writes does") {
  TwoStreams streams;
  streams.run(0, "read", {&streams.x}, {}, streams.note('s'));
  when_free(streams.x, true, false, streams.note('r'));
  when_free(streams.x, false, true, streams.note('w'));
  CHECK(streams.log == "r");
  run_dry(streams.a);
  CHECK(streams.log == "rsw");
}

TEST_CASE("an op on a stream after one on the CPU has nothing to wait for") {
  TwoStreams streams;
  streams.run(0, "old", {}, {&streams.x}, streams.note('o'));
  run_dry(streams.a);
  streams.x.clear();  // as if a CPU op had overwritten the var
  CHECK(streams.x.size() == 0);
  streams.run(1, "new", {&streams.x}, {}, streams.note('n'));
  CHECK(streams.b.run_one());
  CHECK(streams.log == "on");
}

TEST_CASE("an error on a stream is inherited by what read it, wherever, and by nothing else") {
  TwoStreams streams;
  FenceSet untouched;
  const Fence bad = streams.run(0, "bad", {}, {&streams.x}, [] { throw std::runtime_error("overflow"); });
  const Fence same = streams.run(0, "same", {&streams.x}, {&streams.y}, streams.note('s'));
  const Fence other = streams.run(1, "other", {&streams.y}, {&streams.y}, streams.note('o'));
  const Fence fine = streams.run(0, "fine", {}, {&untouched}, streams.note('f'));
  const Fence over = streams.run(1, "over", {}, {&streams.x}, streams.note('w'));
  run_dry(streams.a);
  run_dry(streams.b);
  CHECK(story(bad->failure()) == "bad: overflow");
  CHECK(story(same->failure()) == "bad: overflow > same");
  CHECK(story(other->failure()) == "bad: overflow > same > other");
  CHECK(story(fine->failure()) == "well");
  CHECK(story(over->failure()) == "well");  // no failure: "over" only overwrites the failed var
  CHECK(story(streams.x.failure()) == "well");
  CHECK(story(streams.y.failure()) == "bad: overflow > same > other");
  CHECK_THROWS_WITH_AS(std::rethrow_exception(bad->failure()->root->exception), "overflow",
                       std::runtime_error);
}

TEST_CASE("a var remembers how its last write failed, for those that read it") {
  TwoStreams streams;
  streams.run(0, "bad", {}, {&streams.x}, [] { throw std::runtime_error("overflow"); });
  CHECK(story(streams.x.failure()) == "well");  // not known before the stream runs
  run_dry(streams.a);
  CHECK(story(streams.x.failure()) == "bad: overflow");
  std::vector<Dependency> after;
  streams.x.collect(false, true, after);
  CHECK(after.empty());
  streams.x.collect(true, false, after);
  REQUIRE(after.size() == 1);
  CHECK(after[0].fence->done());
  CHECK(story(after[0].fence->failure()) == "bad: overflow");
}

TEST_CASE("an op that throws while it enqueues fails when what it had enqueued is done") {
  TwoStreams streams;
  const Fence half = streams.issue(0, "half", {}, {&streams.x}, [&](Stream& stream) {
    stream.enqueue(streams.note('h'));
    throw std::runtime_error("no second half");
  });
  when_free(streams.x, false, true, streams.note('c'));
  CHECK(streams.log.empty());
  run_dry(streams.a);
  CHECK(streams.log == "hc");
  CHECK(story(half->failure()) == "half: no second half");
}

TEST_CASE("the events of a stream are used again, and an older generation counts as complete") {
  TwoStreams streams;
  Fence first;
  for (int i = 0; i < 100; ++i) {
    const Fence fence = streams.run(0, "again", {}, {&streams.x}, streams.note('.'));
    if (i == 0) first = fence;
    run_dry(streams.a);
    CHECK(fence->done());
  }
  CHECK(streams.issuer(0).events().size() == 1);
  // A later op uses the event now. A wait for the first fence returns at once, since the event's generation
  // of that fence is complete.
  streams.run(0, "later", {}, {&streams.x}, streams.note('l'));
  first->before(streams.b);
  streams.b.enqueue(streams.note('b'));
  run_dry(streams.b);
  CHECK(streams.log.back() == 'b');
}

TEST_CASE("ops under way have an event each, also where one is used again") {
  TwoStreams streams;
  streams.run(0, "first", {}, {&streams.x}, streams.note('1'));
  run_dry(streams.a);
  const Fence second = streams.run(0, "second", {}, {&streams.x}, streams.note('2'));
  const Fence third = streams.run(0, "third", {}, {&streams.x}, streams.note('3'));
  run_dry(streams.a);
  CHECK(story(second->failure()) == "well");
  CHECK(story(third->failure()) == "well");
  CHECK(streams.issuer(0).events().size() == 2);
}

TEST_CASE("a wait on an older generation is not a wait for the newer one") {
  HostStream a(cpu(), Lane::compute, {.stepped = true}), b(cpu(), Lane::compute, {.stepped = true});
  const std::unique_ptr<Event> event = a.make_event();
  CHECK(event->generation() == 0);
  a.record(*event);
  CHECK_THROWS_WITH_AS(a.record(*event), "record: the event was recorded before and has not completed since",
                       InvalidArgument);
  const std::uint64_t first = event->generation();
  b.wait(*event, first);
  run_dry(a);
  a.record(*event);
  CHECK(event->generation() == first + 1);
  // The wait for the first recording is over, although the second recording is not complete.
  CHECK(b.run_one());
  b.wait(*event, first + 1);
  CHECK_FALSE(b.run_one());
  std::exception_ptr error;
  CHECK(a.poll(*event, first, error));
  CHECK_FALSE(a.poll(*event, first + 1, error));
  run_dry(a);
  CHECK(b.run_one());
}

TEST_CASE("a var keeps one read a stream, the last") {
  TwoStreams streams;
  std::vector<Fence> fences;
  for (int i = 0; i < 50; ++i) {
    fences.push_back(
        streams.run(static_cast<std::size_t>(i % 2), "read", {&streams.x}, {}, streams.note('r')));
  }
  CHECK(streams.x.size() == 2);
  streams.x.add_read(fences[0]);  // reports an older read of the same stream late, as another thread may do
  std::vector<Dependency> after;
  streams.x.collect(false, true, after);
  REQUIRE(after.size() == 2);
  CHECK(after[0].fence == fences[48]);
  CHECK(after[1].fence == fences[49]);
  run_dry(streams.a);
  run_dry(streams.b);
  after.clear();
  streams.x.collect(false, true, after);
  CHECK(after.empty());
  CHECK(streams.x.size() == 0);
}

TEST_CASE("a stream waits once for another's fence and for none that it includes") {
  TwoStreams streams;
  FenceSet vars[20];
  for (FenceSet& var : vars) streams.run(0, "write", {}, {&var}, streams.note('w'));
  std::vector<FenceSet*> all;
  for (FenceSet& var : vars) all.push_back(&var);
  streams.run(1, "read all", all, {}, streams.note('r'));
  streams.run(1, "read one", {&vars[3]}, {}, streams.note('1'));
  run_dry(streams.a);
  int items = 0;
  while (streams.b.run_one()) ++items;
  CHECK(items == 5);  // one wait, and for each of two ops its work and the recording of its event
}

// A stream that executes work at once. The test calls the callbacks of its events in any order.
class Unheard final : public Stream {
 public:
  explicit Unheard(std::vector<Callback>& calls) : Stream(cpu(), Lane::compute), calls_(calls) {}
  void enqueue(std::function<void()> fn) override { fn(); }
  void copy(void*, const void*, std::size_t) override {}
  std::unique_ptr<Event> make_event() override { return std::make_unique<Event>(); }
  void record(Event&) override {}
  bool can_wait_for(const Stream&) const override { return true; }
  void wait(Event&, std::uint64_t) override {}
  bool poll(Event&, std::uint64_t, std::exception_ptr&) noexcept override { return true; }
  bool notify(Event&, std::uint64_t, const Callback& call) override {
    calls_.push_back(call);
    return true;
  }

 private:
  std::vector<Callback>& calls_;
};

TEST_CASE("a fence is done only when what it read is done, in whatever order the events are heard of") {
  std::vector<Stream::Callback> calls;
  StreamRig rig;
  rig.add(std::make_unique<Unheard>(calls));
  FenceSet x, y;
  const Fence bad = rig.run(0, "bad", {}, {&x}, [] {});
  const Fence next = rig.run(0, "next", {&x}, {&y}, [] {});
  calls.at(1)(nullptr);
  CHECK_FALSE(next->done());  // not done: it is not known yet whether "bad" has failed
  calls.at(0)(std::make_exception_ptr(std::runtime_error("overflow")));
  CHECK(story(bad->failure()) == "bad: overflow");
  CHECK(story(next->failure()) == "bad: overflow > next");
}

TEST_CASE("a hundred thousand fences that hang on one are done in their order, without nesting") {
  constexpr int kLength = 100000;
  std::vector<Stream::Callback> calls;
  std::vector<int> order;
  StreamRig rig;
  rig.add(std::make_unique<Unheard>(calls));
  FenceSet x;
  for (int i = 0; i < kLength; ++i) {
    rig.run(0, "link", {&x}, {&x}, [] {})->when_done([&order, i] { order.push_back(i); });
  }
  REQUIRE(calls.size() == kLength);
  for (std::size_t i = kLength - 1; i > 0; --i) calls[i](nullptr);
  CHECK(order.empty());
  calls[0](nullptr);
  REQUIRE(order.size() == kLength);
  CHECK(std::is_sorted(order.begin(), order.end()));
}

struct Node {
  Node* next = nullptr;
  int value = 0;
  Node* next_ready() const { return next; }
  void set_next_ready(Node* node) { next = node; }
};

TEST_CASE("one thread at a time is inside an issue gate, and nothing left with it is lost") {
  detail::IssueGate<Node> gate;
  constexpr int kThreads = 4, kEach = 2000;
  std::vector<Node> nodes(kThreads * kEach);
  long sum = 0;  // neither atomic nor locked: only the thread that is inside the gate uses it
  std::atomic<int> inside{0}, crowds{0};
  auto issue = [&](const Node& node) {
    if (inside.fetch_add(1) != 0) ++crowds;
    sum += node.value;
    if (sum % 16 == 0) std::this_thread::yield();
    inside.fetch_sub(1);
  };
  std::latch start(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      start.arrive_and_wait();
      for (int i = 0; i < kEach; ++i) {
        Node* node = &nodes[static_cast<std::size_t>(t * kEach + i)];
        node->value = 1;
        if (!gate.enter(node)) continue;
        do issue(*node);
        while ((node = gate.next()));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(crowds == 0);
  CHECK(sum == kThreads * kEach);
}

}  // namespace
}  // namespace heddle::test
