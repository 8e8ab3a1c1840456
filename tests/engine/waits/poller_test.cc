// How a poller notices completed events of streams that cannot call back.
#include "stream/poller.h"

#include <atomic>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/host_stream.h>

namespace heddle::test {
namespace {

HostStreamOptions polled(std::uint64_t seed) { return {.seed = seed, .most_delay = 3, .calls_back = false}; }

TEST_CASE("a stream that calls back needs no poller's thread") {
  HostStream stream(cpu(), Lane::compute, {.stepped = true});
  detail::Poller poller;
  const std::unique_ptr<Event> event = stream.make_event();
  int told = 0;
  stream.record(*event);
  poller.watch(stream, *event, 1, [&](const std::exception_ptr&) { ++told; });
  while (stream.step()) {
  }
  CHECK(told == 1);
  CHECK_FALSE(poller.has_thread());
}

TEST_CASE("every event of polled streams is told of once, in the stream's order, with its error") {
  constexpr int kStreams = 3, kEvents = 200;
  std::vector<std::unique_ptr<HostStream>> streams;
  std::vector<std::unique_ptr<Event>> events;
  std::vector<int> told[kStreams];  // numbers of the events that the poller's thread has told of, by stream
  int errors = 0;
  {
    detail::Poller poller;
    for (std::uint64_t s = 0; s < kStreams; ++s) {
      streams.push_back(std::make_unique<HostStream>(cpu(), Lane::compute, polled(s)));
    }
    for (int i = 0; i < kEvents; ++i) {
      for (std::size_t s = 0; s < kStreams; ++s) {
        HostStream& stream = *streams[s];
        if (i % 50 == 7) stream.enqueue([] { throw std::runtime_error("now and then"); });
        Event& event = *events.emplace_back(stream.make_event());
        stream.record(event);
        poller.watch(stream, event, 1, [&, s, i](const std::exception_ptr& error) {
          told[s].push_back(i);
          if (error) ++errors;
        });
      }
    }
    CHECK(poller.has_thread());
    poller.stop();  // returns after the poller has told of all events
  }
  CHECK(errors == kStreams * kEvents / 50);
  for (const std::vector<int>& order : told) {
    REQUIRE(order.size() == kEvents);
    for (int i = 0; i < kEvents; ++i) CHECK(order[static_cast<std::size_t>(i)] == i);
  }
}

TEST_CASE("a poller that fell asleep hears of what comes later") {
  HostStream stream(cpu(), Lane::compute, polled(1));
  detail::Poller poller;
  const std::unique_ptr<Event> event = stream.make_event();
  for (std::uint64_t i = 1; i <= 50; ++i) {
    std::atomic<bool> told{false};
    stream.record(*event);
    poller.watch(stream, *event, i, [&](const std::exception_ptr&) {
      told = true;
      told.notify_one();
    });
    told.wait(false);  // from here on the poller has nothing to do, and may fall asleep
  }
  CHECK(event->generation() == 50);
}

TEST_CASE("a callback may watch the next event") {
  HostStream stream(cpu(), Lane::compute, polled(1));
  detail::Poller poller;
  const std::unique_ptr<Event> event = stream.make_event();
  std::atomic<int> left{100};
  std::function<void(const std::exception_ptr&)> again = [&](const std::exception_ptr&) {
    if (left.fetch_sub(1) == 1) return left.notify_one();
    stream.record(*event);
    poller.watch(stream, *event, event->generation(), again);
  };
  stream.record(*event);
  poller.watch(stream, *event, 1, again);
  for (int now = left; now > 0; now = left) left.wait(now);
  CHECK(event->generation() == 100);
}

}  // namespace
}  // namespace heddle::test
