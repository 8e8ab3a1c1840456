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

// An Issuer, its stream and its events live as long as the engine.
class Issuer {
 public:
  Issuer(std::unique_ptr<Stream> stream, Poller& poller) : stream_(std::move(stream)), poller_(&poller) {}

  Stream& stream() { return *stream_; }
  const Stream& stream() const { return *stream_; }
  const EventPool& events() const { return events_; }

  // False if one of the fences is on a stream that this stream cannot wait for: then the op is deferred until
  // all are done, as an op on the CPU is.
  bool can_wait_for(const std::vector<Dependency>& after) const;

  // Calls body(stream), so that the work it enqueues runs after all fences in `after`. The returned fence fails if
  // body throws, or if the work that it enqueued fails later. issue() itself throws only if no event can be made; then
  // nothing was enqueued. One thread at a time may call it (see IssueGate).
  Fence issue(const std::vector<Dependency>& after, const std::function<void(Stream&)>& body,
              Outcome outcome);
  // The same for several ops together.
  Fence issue_several(const std::vector<Dependency>& after, const std::function<void(Stream&)>& body,
                      OutcomeOfVars outcome);

 private:
  Fence make_fence(const std::vector<Dependency>& after);
  void issue_with(const Fence& fence, const std::vector<Dependency>& after,
                  const std::function<void(Stream&)>& body);
  std::vector<Fence> newest_elsewhere(const std::vector<Dependency>& after);
  std::exception_ptr enqueue(const std::vector<Fence>& waits, const std::function<void(Stream&)>& body);
  void watch(const Fence& fence) noexcept;

  EventPool events_;
  std::unique_ptr<Stream> stream_;  // destroyed before its events
  Poller* poller_;
  std::uint64_t tickets_ = 0;
  // For each other stream: the last ticket of its fences that this stream waits for already.
  std::vector<std::pair<const Stream*, std::uint64_t>> waited_;
};

}  // namespace heddle::detail
