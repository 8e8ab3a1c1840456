// Detects ranks that wait in different calls where no message reveals it, because each of the two calls waits for a
// message that the other one does not send.
#pragma once

#include <chrono>
#include <mutex>
#include <optional>
#include <vector>

#include "core/collective.h"
#include "core/failure.h"

namespace heddle::comm_detail {

// Compares the calls that all ranks make, which have one order; ignores sends and recvs. Thread-safe.
class CallWatch {
 public:
  // How long a rank waits in a call before it announces the call to the other ranks. Most waits end before.
  static constexpr std::chrono::milliseconds kAnnounceAfter{20};

  CallWatch(int rank, int size);

  // This rank begins a call. Returns a failure if another rank has announced a different call of the same number.
  std::optional<Failure> begin(const CallRecord& call);
  // Another rank has announced the call that it waits in. Returns a failure if this rank's call of that number is
  // different; if this rank has not begun that call yet, begin() compares the two later.
  std::optional<Failure> announced(int rank, const CallRecord& call);
  // The number of the latest call that the rank has announced; 0: none.
  std::uint64_t latest_announced(int rank);

 private:
  static constexpr std::size_t kKept = 1024;
  static bool same(const CallRecord& theirs, const CallRecord& mine);
  Failure differ(int rank, const CallRecord& theirs, const CallRecord& mine) const;

  const int rank_;
  std::mutex mutex_;                              // guards the rest; nothing is locked under it
  std::vector<CallRecord> begun_;                 // this rank's latest calls, by sequence % kKept
  std::uint64_t latest_ = 0;                      // number of this rank's latest call
  std::vector<std::uint64_t> others_;             // by rank: number of the latest announced call
  std::vector<std::optional<CallRecord>> ahead_;  // by rank: an announced call that this rank has not begun
};

// Whether all ranks take part in the call and it has a number, from 1 on, by which it can be compared.
inline bool is_collective_call(const CallRecord& call) {
  return call.sequence > 0 && !is_point_to_point(call.kind);
}

}  // namespace heddle::comm_detail
