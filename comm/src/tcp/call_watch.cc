#include "tcp/call_watch.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/mismatch.h"

namespace heddle::comm_detail {

CallWatch::CallWatch(int rank, int size)
    : rank_(rank), begun_(kKept), others_(static_cast<std::size_t>(size)), ahead_(others_.size()) {}

// Device libraries do not compare the calls of the ranks: calls that differed but had equal sizes show in the history
// only.
bool CallWatch::same(const CallRecord& theirs, const CallRecord& mine) {
  return theirs.agreement == mine.agreement && theirs.history == mine.history;
}

Failure CallWatch::differ(int rank, const CallRecord& theirs, const CallRecord& mine) const {
  std::string text = different_calls({rank_, mine}, {rank, theirs});
  if (theirs.agreement == mine.agreement) text += ", but something else before";
  return {Failure::Type::mismatch, rank, std::move(text)};
}

std::optional<Failure> CallWatch::begin(const CallRecord& call) {
  if (!is_collective_call(call)) return std::nullopt;
  const std::lock_guard lock(mutex_);
  begun_[call.sequence % kKept] = call;
  latest_ = call.sequence;
  for (std::size_t rank = 0; rank < ahead_.size(); ++rank) {
    const auto& other = ahead_[rank];
    if (!other || other->sequence > latest_) continue;
    if (other->sequence == latest_ && !same(*other, call))
      return differ(static_cast<int>(rank), *other, call);
    ahead_[rank].reset();
  }
  return std::nullopt;
}

std::optional<Failure> CallWatch::announced(int rank, const CallRecord& call) {
  if (!is_collective_call(call)) return std::nullopt;
  const std::lock_guard lock(mutex_);
  std::uint64_t& latest = others_[static_cast<std::size_t>(rank)];
  latest = std::max(latest, call.sequence);
  if (call.sequence > latest_) {
    ahead_[static_cast<std::size_t>(rank)] = call;
    return std::nullopt;
  }
  const CallRecord& mine = begun_[call.sequence % kKept];
  if (mine.sequence != call.sequence || same(call, mine)) return std::nullopt;
  return differ(rank, call, mine);
}

std::uint64_t CallWatch::latest_announced(int rank) {
  const std::lock_guard lock(mutex_);
  return others_[static_cast<std::size_t>(rank)];
}

}  // namespace heddle::comm_detail
