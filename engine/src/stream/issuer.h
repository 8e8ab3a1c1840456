// The engine's side of a stream: issues ops on it one after another, each with a fence.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "stream/event_pool.h"
#include "stream/fence.h"

namespace heddle::detail {

class Poller;

// Lives as long as its engine; so do its stream and the events.
class Issuer {
 public:
  Issuer(std::unique_ptr<Stream> stream, Poller& poller) : stream_(std::move(stream)), poller_(&poller) {}

  Stream& stream() { return *stream_; }
  const Stream& stream() const { return *stream_; }
  const EventPool& events() const { return events_; }

  // False if one of them is on a stream that this one cannot wait for: then the op is kept back until they are done,
  // as one on the CPU would be.
  bool can_wait_for(const std::vector<Dependency>& after) const;

  // Calls body(stream), so that the work it enqueues runs after everything in `after`. What body throws, and what its
  // work throws later, fails the fence. Throws only if there is no event to be had; then nothing was enqueued. One
  // thread at a time (see IssueGate).
  Fence issue(const std::vector<Dependency>& after, const std::function<void(Stream&)>& body,
              Outcome outcome);

 private:
  std::vector<Fence> newest_elsewhere(const std::vector<Dependency>& after);
  std::exception_ptr enqueue(const std::vector<Fence>& waits, const std::function<void(Stream&)>& body);
  void watch(const Fence& fence, bool recorded) noexcept;

  EventPool events_;
  std::unique_ptr<Stream> stream_;  // ends before its events do
  Poller* poller_;
  std::uint64_t tickets_ = 0;
  // For every other stream, up to which of its fences this one waits already.
  std::vector<std::pair<const Stream*, std::uint64_t>> waited_;
};

}  // namespace heddle::detail
