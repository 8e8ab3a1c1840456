#include "tcp/call_watch.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/mismatch.h"

namespace heddle::comm_detail {

CallWatch::CallWatch(int rank, int size)
    : rank_(rank), begun_(kKept), others_(static_cast<std::size_t>(size)) {}

// Device libraries do not compare the calls of the ranks. If ranks make different calls with equal sizes
// there, only CallRecord::history of a later call shows it.
bool CallWatch::same(const CallRecord& theirs, const CallRecord& mine) {
  return theirs.agreement == mine.agreement && theirs.history == mine.history;
}

Failure CallWatch::differ(const Announced& one, const Announced& other) {
  std::string text = different_calls({one.rank, one.call}, {other.rank, other.call});
  if (one.call.agreement == other.call.agreement) text += ", but something else before";
  return {Failure::Type::mismatch, other.rank, std::move(text)};
}

std::optional<Failure> CallWatch::begin(const CallRecord& call) {
  if (!is_collective_call(call)) return std::nullopt;
  const std::lock_guard lock(mutex_);
  begun_[call.sequence % kKept] = call;
  latest_ = call.sequence;
  std::optional<Failure> failure;
  for (auto at = ahead_.begin(); at != ahead_.end() && at->first <= latest_; at = ahead_.erase(at)) {
    if (at->first == latest_ && !same(at->second.call, call)) failure = differ({rank_, call}, at->second);
  }
  return failure;
}

std::optional<Failure> CallWatch::announced(int rank, const CallRecord& call) {
  if (!is_collective_call(call)) return std::nullopt;
  const std::lock_guard lock(mutex_);
  std::uint64_t& latest = others_[static_cast<std::size_t>(rank)];
  latest = std::max(latest, call.sequence);
  if (call.sequence > latest_) {
    if (ahead_.size() >= kKept && !ahead_.contains(call.sequence)) return std::nullopt;
    const auto [at, is_first] = ahead_.try_emplace(call.sequence, rank, call);
    if (is_first || same(at->second.call, call)) return std::nullopt;
    return differ(at->second, {rank, call});
  }
  const CallRecord& mine = begun_[call.sequence % kKept];
  if (mine.sequence != call.sequence || same(call, mine)) return std::nullopt;
  return differ({rank_, mine}, {rank, call});
}

std::uint64_t CallWatch::latest_announced(int rank) {
  const std::lock_guard lock(mutex_);
  return others_[static_cast<std::size_t>(rank)];
}

}  // namespace heddle::comm_detail
