#include "server/key/push.h"

#include <algorithm>

#include "server/key/sole_weight.h"

namespace heddle::kv_detail {

std::uint64_t Push::bytes() const { return bytes_of(value) + bytes_of(rows); }

Clocks PushQueues::clocks() const {
  Clocks all;
  for (const OfWorker& worker : workers_) {
    all.clocks.push_back(worker.clock);
    all.missed.push_back(worker.missed);
  }
  return all;
}

PushQueues::PushQueues(const Clocks& clocks) : workers_(clocks.clocks.size()) {
  for (std::size_t rank = 0; rank < workers_.size(); ++rank) {
    workers_[rank].clock = clocks.clocks[rank];
    workers_[rank].missed = clocks.missed[rank];
  }
}

void PushQueues::add(std::uint32_t rank, Push push) {
  ++count_;
  bytes_ += push.bytes() + push.state_bytes;
  workers_[rank].waiting.push_back(std::move(push));
}

void PushQueues::pop(std::uint32_t rank) {
  std::list<Push>& waiting = workers_[rank].waiting;
  --count_;
  bytes_ -= waiting.front().bytes() + waiting.front().state_bytes;
  waiting.pop_front();
}

PushQueues::Round PushQueues::next_round(const Required& required) const {
  Round round;
  for (std::uint32_t rank = 0; rank < workers_.size(); ++rank) {
    const std::list<Push>& waiting = workers_[rank].waiting;
    if (waiting.empty() && required[rank]) return {};
    if (!waiting.empty()) round.emplace_back(rank, &waiting.front());
  }
  return round;
}

std::optional<std::uint64_t> PushQueues::lead(std::uint32_t rank, std::uint64_t clock,
                                              const Consistency& consistency,
                                              const Required& required) const {
  if (consistency.mode == Consistency::Mode::sync) {
    const OfWorker& worker = workers_[rank];
    if (worker.clock - worker.waiting.size() + worker.missed >= clock) return 0;
    return std::nullopt;
  }
  const std::uint64_t mine = clock + workers_[rank].missed;
  std::uint64_t least = mine;
  for (std::uint32_t other = 0; other < workers_.size(); ++other) {
    if (required[other]) least = std::min(least, progress(other));
  }
  if (consistency.mode == Consistency::Mode::ssp && mine - least > consistency.slack) return std::nullopt;
  return mine - least;
}

std::vector<std::uint32_t> PushQueues::behind(std::uint32_t rank, std::uint64_t clock,
                                              const Consistency& consistency,
                                              const Required& required) const {
  std::vector<std::uint32_t> ranks;
  const bool in_rounds = consistency.mode == Consistency::Mode::sync;
  for (std::uint32_t other = 0; other < workers_.size(); ++other) {
    const bool is_behind = in_rounds ? workers_[other].waiting.empty()
                                     : clock + workers_[rank].missed > progress(other) + consistency.slack;
    if (required[other] && is_behind) ranks.push_back(other);
  }
  return ranks;
}

void PushQueues::rejoin(std::uint32_t rank, const Required& required) {
  std::uint64_t least = ~std::uint64_t{0};
  for (std::uint32_t other = 0; other < workers_.size(); ++other) {
    if (other != rank && required[other]) least = std::min(least, progress(other));
  }
  if (least != ~std::uint64_t{0} && least > progress(rank)) workers_[rank].missed += least - progress(rank);
}

void PushQueues::forget_missed() {
  for (OfWorker& worker : workers_) worker.missed = 0;
}

}  // namespace heddle::kv_detail
