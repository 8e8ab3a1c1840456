#include "stream/streams.h"

#include <algorithm>

namespace heddle::detail {

std::string StreamLane::name() const {
  const Stream& stream = issuer.stream();
  return "stream " + std::to_string(number) + " (" + stream.device().to_string() + ", " +
         name_of(stream.lane()) + ")";
}

// When the work of an op begins is not known. In the trace it begins when the op was issued or when the work
// before it on the stream was done, whichever is later.
void StreamLane::trace_done(const OpNode& op, std::uint32_t engine, trace::Tick issued) noexcept {
  std::lock_guard guard(trace_lock_);
  const trace::Tick start = std::max(issued, last_done_);
  last_done_ = std::max(start, trace::now());
  trace::op_ran(trace::stream_lane(engine, number), traced(op, engine), start, last_done_);
}

Stream& Streams::append(std::unique_ptr<Stream> stream, bool shared) {
  StreamLane& lane = lanes_.emplace_back(std::move(stream), poller_, shared, lanes_.size());
  if (auto* host = dynamic_cast<HostStream*>(&lane.issuer.stream()); host && host->stepped()) {
    stepped_.push_back(host);
    stepped_count_.store(stepped_.size(), std::memory_order_release);
  }
  lane.next = newest_.load(std::memory_order_relaxed);
  newest_.store(&lane, std::memory_order_release);
  return lane.issuer.stream();
}

Stream& Streams::add(std::unique_ptr<Stream> stream) {
  std::lock_guard guard(mutex_);
  return append(std::move(stream), false);
}

Stream& Streams::shared(Device device, Lane lane, const Make& make) {
  std::lock_guard guard(mutex_);
  for (StreamLane& one : lanes_) {
    Stream& stream = one.issuer.stream();
    if (one.shared && stream.device() == device && stream.lane() == lane) return stream;
  }
  return append(make(), true);
}

StreamLane* Streams::find(const Stream& stream) const {
  StreamLane* lane = newest_.load(std::memory_order_acquire);
  while (lane && &lane->issuer.stream() != &stream) lane = lane->next;
  return lane;
}

HostStream* Streams::stepped_at(std::size_t i) const {
  std::lock_guard guard(mutex_);
  return stepped_[i];
}

bool Streams::step(std::size_t first) {
  const std::size_t count = stepped();
  for (std::size_t i = 0; i < count; ++i) {
    if (stepped_at((first + i) % count)->step()) return true;
  }
  return false;
}

void Streams::stop() noexcept {
  poller_.stop();
  newest_.store(nullptr, std::memory_order_relaxed);
  stepped_count_.store(0, std::memory_order_relaxed);
  lanes_.clear();
}

}  // namespace heddle::detail
