// Detects ranks that wait in different calls where no message reveals it, because each of the two calls waits
// for a message that the other call does not send.
//
// A rank that waits for long announces its call to the ranks that it waits for, and to one more rank, which
// is the same for all ranks. An awaited rank finds that it is in a different call; the common rank finds
// differences between ranks that wait for a third one. If each rank announced its call to all others, n ranks
// on few cores would spend their time on n * n messages per call.
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

// Compares the collective calls of all ranks, which all ranks make in one order; ignores sends and recvs.
// Thread-safe.
class CallWatch {
 public:
  // How long a rank waits in a call before it announces the call. Most waits end before.
  static constexpr std::chrono::milliseconds kAnnounceAfter{20};

  CallWatch(int rank, int size);

  // Called when this rank begins a call. Returns a failure if another rank has announced a different call of the
  // same number.
  std::optional<Failure> begin(const CallRecord& call);
  // Called when another rank has announced the call that it waits in. Compares that with this rank's call of
  // the same number, or, if this rank has not begun that call yet, with the call of that number that another
  // rank has announced; begin() compares it with this rank's call later. Returns a failure if the two calls
  // differ.
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
  std::mutex mutex_;                   // guards the members below; no other mutex is locked while it is held
  std::vector<CallRecord> begun_;      // this rank's latest calls; call n is at index n % kKept
  std::uint64_t latest_ = 0;           // number of this rank's latest call
  std::vector<std::uint64_t> others_;  // by rank: number of its latest announced call
  // Calls that this rank has not begun yet, by their numbers, as the first rank to announce them has
  // described them; kKept at most.
  std::map<std::uint64_t, Announced> ahead_;
};

// Whether all ranks take part in the call and it has a number, from 1 on, by which ranks can compare it.
inline bool is_collective_call(const CallRecord& call) {
  return call.sequence > 0 && !is_point_to_point(call.kind);
}

// The ranks to which a rank announces the call in which it waits: for a message from rank `from` to come, and
// one to rank `to` to be sent (-1: no such message). -1 in the result: no rank.
inline std::array<int, 3> ranks_to_tell(const CallRecord& call, int size, int to, int from) {
  const int for_all = static_cast<int>(call.sequence % static_cast<std::uint64_t>(size));
  return {to, from == to ? -1 : from, for_all == to || for_all == from ? -1 : for_all};
}

}  // namespace heddle::comm_detail
