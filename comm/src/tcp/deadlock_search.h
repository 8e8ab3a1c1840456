// Finds ranks that wait for each other in a circle, each for a message that the next one will not send, or not read, before
// its own wait is over. Chandy, Misra and Haas, "Distributed deadlock detection", ACM TOCS 1(2), 1983: who has waited for
// long sends a probe along its wait; who gets one and waits too sends it on along its own; one that comes back has found
// a circle. Messages on their way are no part of one: a probe names its message by number, and whoever has sent or read
// that drops it.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/collective.h"
#include "core/failure.h"

namespace heddle::comm_detail {

// Messages between this rank and another one that have been begun.
struct MessageCounts {
  std::uint64_t sent = 0, received = 0;
};

struct Probe {
  std::int32_t origin = -1;
  std::uint32_t to_read =
      0;  // 1: `message` lies unread at whoever gets this; 0: it has not been sent by that one
  std::uint64_t attempt = 0;  // of the origin
  std::uint64_t message = 0;  // between the last rank on the way and the one that gets this
  std::string path{};         // who waits for whom, in words
};

// Thread-safe.
class DeadlockSearch {
 public:
  // `counts`, by rank, are the caller's: read only while it waits.
  DeadlockSearch(int rank, std::span<const MessageCounts> counts)
      : rank_(rank), counts_(counts), seen_(counts.size()) {}

  using Probes = std::vector<std::pair<int, Probe>>;  // for which rank

  // This rank's caller sleeps until the message from `from` begins to come and that to `to` is away; -1: there is none.
  void sleeps(const CallRecord& call, int from, int to);
  void wakes();
  // It has come a step further: the next sleep is another wait.
  void moves();
  // The wait has lasted for long. May be asked again: probes that meet a rank on its way to sleep are lost.
  Probes begin();

  struct Finding {
    Probes on{};
    std::optional<Failure> circle{};
  };
  Finding received(int from, const Probe& probe);

 private:
  struct Seen {  // the last probe of an origin that was sent on, and in which wait of this rank
    std::uint64_t attempt = 0, wait = 0;
  };
  Probes along(const Probe& probe) const;
  bool blocks(int other, const Probe& probe) const;

  const int rank_;
  const std::span<const MessageCounts> counts_;
  mutable std::mutex mutex_;  // guards the rest; nothing is locked under it
  bool asleep_ = false;
  std::uint64_t wait_ = 1, attempts_ = 0;
  std::uint64_t first_attempt_ = 1;  // in this wait
  CallRecord call_{};
  int from_ = -1, to_ = -1;
  std::vector<Seen> seen_;  // by origin
};

}  // namespace heddle::comm_detail
