// Detects deadlocks: cycles of ranks in which each waits for a message that the next one will not send, or not read,
// before its own wait ends. Chandy, Misra and Haas, "Distributed deadlock detection", ACM TOCS 1(2), 1983: a rank that
// has waited for long sends a probe to the ranks that it waits for. A rank that receives a probe and waits itself
// forwards it in the same way. A probe that returns to its origin has found a cycle. Messages in transit do not count
// as waits: a probe has the number of the awaited message, and a rank that has sent or read this drops the probe.
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

// How many messages this rank has begun to send to another rank, and to receive from it.
struct MessageCounts {
  std::uint64_t sent = 0, received = 0;
};

struct Probe {
  std::int32_t origin = -1;
  // 1: the sender of the probe waits until the receiver of the probe has read `message`. 0: it waits until
  // the receiver has sent `message`.
  std::uint32_t to_read = 0;
  std::uint64_t attempt = 0;  // the number of the search, among those of the origin
  // The awaited message's number among those between the sender and the receiver of the probe.
  std::uint64_t message = 0;
  std::string path{};  // the waits that the probe has followed, as text; see wait_of
};

// This rank's part in the search for deadlocks. Thread-safe.
class DeadlockSearch {
 public:
  // `counts`, by rank, belong to the thread that makes the transfers, and are read only while it sleeps.
  DeadlockSearch(int rank, std::span<const MessageCounts> counts)
      : rank_(rank), counts_(counts), seen_(counts.size()) {}

  using Probes = std::vector<std::pair<int, Probe>>;  // each probe with the rank to send it to

  // Called when the thread that makes the transfers is going to sleep until a message from `from` begins to
  // arrive and the message to `to` is sent; -1: there is no such message.
  void begin_sleep(const CallRecord& call, int from, int to);
  void end_sleep();
  // Called when that thread has sent or received something since its last sleep, so that its next sleep is a
  // new wait.
  void begin_wait();
  // Begins a search because of a wait that has lasted for long, and returns its probes. Searches have to be
  // repeated, since a rank that is only about to sleep drops a probe.
  Probes start();

  struct Result {
    Probes forward{};
    std::optional<Failure> cycle{};
  };
  // Handles a probe from rank `from`.
  Result received(int from, const Probe& probe);

 private:
  struct Seen {  // the last forwarded probe of an origin, and this rank's wait at that time
    std::uint64_t attempt = 0, wait = 0;
  };
  Probes forward(const Probe& probe) const;
  bool blocks(int other, const Probe& probe) const;

  const int rank_;
  const std::span<const MessageCounts> counts_;
  mutable std::mutex mutex_;  // guards the members below; no other mutex is locked while it is held
  bool asleep_ = false;
  std::uint64_t wait_ = 1, attempts_ = 0;
  std::uint64_t first_attempt_ = 1;  // number of the first search made during the current wait
  CallRecord call_{};
  int from_ = -1, to_ = -1;
  std::vector<Seen> seen_;  // the last forwarded probes, by origin
};

}  // namespace heddle::comm_detail
