// Detects ranks that wait in different calls where no message reveals it, because each of the two calls waits for a
// message that the other one does not send.
//
// A rank that waits for long announces its call to the ranks that it waits for, and to one more, which is the same
// for all ranks. An awaited rank finds that it is in a different call; the common one finds differences between
// ranks that wait for a third one. If ranks announced to all others, n ranks on few cores would spend their time on
// n * n messages per call.
#pragma once

#include <array>
#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "core/collective.h"
#include "core/failure.h"

namespace heddle::comm_detail {

// Compares the calls that all ranks make, which have one order; ignores sends and recvs. Thread-safe.
class CallWatch {
 public:
  // How long a rank waits in a call before it announces the call. Most waits end before.
  static constexpr std::chrono::milliseconds kAnnounceAfter{20};

  CallWatch(int rank, int size);

  // Called when this rank begins a call. Returns a failure if another rank has announced a different call of the
  // same number.
  std::optional<Failure> begin(const CallRecord& call);
  // Called when another rank has announced the call that it waits in. Returns a failure if this rank's call of that
  // number is different, or that of another rank that has announced it; if this rank has not begun that call yet,
  // begin() compares the two later.
  std::optional<Failure> announced(int rank, const CallRecord& call);
  // The number of the latest call that the rank has announced; 0: none.
  std::uint64_t latest_announced(int rank);

 private:
  static constexpr std::size_t kKept = 1024;
  static bool same(const CallRecord& theirs, const CallRecord& mine);
  struct Announced {
    int rank;
    CallRecord call;
  };
  static Failure differ(const Announced& one, const Announced& other);

  const int rank_;
  std::mutex mutex_;                   // guards the rest; nothing is locked under it
  std::vector<CallRecord> begun_;      // this rank's latest calls, by sequence % kKept
  std::uint64_t latest_ = 0;           // number of this rank's latest call
  std::vector<std::uint64_t> others_;  // by rank: number of its latest announced call
  // Calls that this rank has not begun, by number, as first announced by another rank; kKept at most.
  std::map<std::uint64_t, Announced> ahead_;
};

// Whether all ranks take part in the call and it has a number, from 1 on, by which it can be compared.
inline bool is_collective_call(const CallRecord& call) {
  return call.sequence > 0 && !is_point_to_point(call.kind);
}

// The ranks to which a rank that waits for `to` and `from` (-1: for none) announces the call; -1: none.
inline std::array<int, 3> ranks_to_tell(const CallRecord& call, int size, int to, int from) {
  const int for_all = static_cast<int>(call.sequence % static_cast<std::uint64_t>(size));
  return {to, from == to ? -1 : from, for_all == to || for_all == from ? -1 : for_all};
}

}  // namespace heddle::comm_detail
