// Whether ranks that wait are in the same call: finds out what messages do not show, when each of two calls waits for one
// that the other does not send.
#pragma once

#include <chrono>
#include <mutex>
#include <optional>
#include <vector>

#include "core/collective.h"
#include "core/failure.h"

namespace heddle::comm_detail {

// Thread-safe. Looks at calls of all ranks, which have one order; sends and recvs are the affair of two.
class CallWatch {
 public:
  // How long a rank waits in a call before it tells the others which one it is. Most are over by then.
  static constexpr std::chrono::milliseconds kPatience{20};

  CallWatch(int rank, int size);

  // This rank has begun a call. A failure if another one has told that its call of this number is another one.
  std::optional<Failure> began(const CallRecord& call);
  // Another rank waits in a call. Likewise, now or when this rank gets there.
  std::optional<Failure> told(int rank, const CallRecord& call);
  // The latest call that it has told of; 0: none.
  std::uint64_t latest_of(int rank);

 private:
  static constexpr std::size_t kKept = 1024;
  static bool same(const CallRecord& theirs, const CallRecord& mine);
  Failure differ(int rank, const CallRecord& theirs, const CallRecord& mine) const;

  const int rank_;
  std::mutex mutex_;                              // guards the rest; nothing is locked under it
  std::vector<CallRecord> begun_;                 // the last ones of this rank, by sequence % kKept
  std::uint64_t latest_ = 0;                      // sequence
  std::vector<std::uint64_t> others_;             // by rank: sequence
  std::vector<std::optional<CallRecord>> ahead_;  // by rank: a call that this one has not come to
};

// Only calls that were numbered, from 1 on, can be compared.
inline bool is_of_all(const CallRecord& call) { return call.sequence > 0 && !is_pair(call.kind); }

}  // namespace heddle::comm_detail
