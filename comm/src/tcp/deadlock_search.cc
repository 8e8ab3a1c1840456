#include "tcp/deadlock_search.h"

#include "core/mismatch.h"

namespace heddle::comm_detail {
namespace {

constexpr std::size_t kMaxPath = 2048;

}  // namespace

void DeadlockSearch::begin_sleep(const CallRecord& call, int from, int to) {
  const std::lock_guard lock(mutex_);
  call_ = call;
  from_ = from;
  to_ = to;
  asleep_ = true;
}

void DeadlockSearch::end_sleep() {
  const std::lock_guard lock(mutex_);
  asleep_ = false;
}

void DeadlockSearch::begin_wait() {
  const std::lock_guard lock(mutex_);
  ++wait_;
  first_attempt_ = attempts_ + 1;
}

// This rank's wait ends only when its message to send and its message to receive have both been transferred.
// So the probe is forwarded to each rank that this one waits for.
DeadlockSearch::Probes DeadlockSearch::forward(const Probe& probe) const {
  Probes probes;
  const auto add = [&](int other, std::uint32_t to_read, std::uint64_t message) {
    Probe next = probe;
    next.to_read = to_read;
    next.message = message;
    if (next.path.size() < kMaxPath) {
      next.path += (next.path.empty() ? "" : kWaitSeparator) + wait_of({rank_, call_}, other);
    } else if (!next.path.ends_with("...")) {
      next.path += "; ...";
    }
    probes.emplace_back(other, std::move(next));
  };
  if (from_ >= 0) add(from_, 0, counts_[static_cast<std::size_t>(from_)].received);
  if (to_ >= 0) add(to_, 1, counts_[static_cast<std::size_t>(to_)].sent - 1);
  return probes;
}

DeadlockSearch::Probes DeadlockSearch::start() {
  const std::lock_guard lock(mutex_);
  if (!asleep_) return {};
  return forward({.origin = rank_, .attempt = ++attempts_});
}

// Whether this rank sleeps, and rank `other` cannot go on before this one does.
bool DeadlockSearch::blocks(int other, const Probe& probe) const {
  if (!asleep_) return false;
  const MessageCounts& counts = counts_[static_cast<std::size_t>(other)];
  if (!probe.to_read) return counts.sent <= probe.message;
  return counts.received <= probe.message && from_ != other;
}

DeadlockSearch::Result DeadlockSearch::received(int from, const Probe& probe) {
  const std::lock_guard lock(mutex_);
  if (!blocks(from, probe)) return {};
  if (probe.origin == rank_) {
    if (probe.attempt < first_attempt_) return {};
    return {{}, Failure{Failure::Type::mismatch, from, cycle_of_waits(probe.path)}};
  }
  Seen& seen = seen_[static_cast<std::size_t>(probe.origin)];
  if (seen.attempt == probe.attempt && seen.wait == wait_) return {};
  seen = {probe.attempt, wait_};
  return {forward(probe), std::nullopt};
}

}  // namespace heddle::comm_detail
