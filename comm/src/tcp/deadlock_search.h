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
  // The sender of the probe waits until the receiver has read (1) or sent (0) `message`.
  std::uint32_t to_read = 0;
  std::uint64_t attempt = 0;  // the origin's attempt number
  std::uint64_t message = 0;  // the message's number among those between the probe's sender and receiver
  std::string path{};         // the waits so far, as text; see wait_of
};

// Thread-safe.
class DeadlockSearch {
 public:
  // `counts`, by rank, belong to the calling thread, and are read only while it sleeps.
  DeadlockSearch(int rank, std::span<const MessageCounts> counts)
      : rank_(rank), counts_(counts), seen_(counts.size()) {}

  using Probes = std::vector<std::pair<int, Probe>>;  // each with the rank to send it to

  // Called when the calling thread is going to sleep until a message from `from` begins to arrive and that to
  // `to` is sent; -1: none.
  void begin_sleep(const CallRecord& call, int from, int to);
  void end_sleep();
  // Called when the calling thread has sent or received something since its last sleep, so that the next
  // sleep is a new wait.
  void begin_wait();
  // Returns the probes of a new search, for a wait that has lasted for long. Searches have to be repeated, since a
  // probe is dropped by a rank that is only about to sleep.
  Probes start();

  struct Result {
    Probes forward{};
    std::optional<Failure> cycle{};
  };
  // Handles a probe from rank `from`.
  Result received(int from, const Probe& probe);

 private:
  struct Seen {  // the last probe of an origin that was forwarded, and this rank's wait at that time
    std::uint64_t attempt = 0, wait = 0;
  };
  Probes forward(const Probe& probe) const;
  bool blocks(int other, const Probe& probe) const;

  const int rank_;
  const std::span<const MessageCounts> counts_;
  mutable std::mutex mutex_;  // guards the rest; nothing is locked under it
  bool asleep_ = false;
  std::uint64_t wait_ = 1, attempts_ = 0;
  std::uint64_t first_attempt_ = 1;  // first attempt of the current wait
  CallRecord call_{};
  int from_ = -1, to_ = -1;
  std::vector<Seen> seen_;  // forwarded probes, by origin
};

}  // namespace heddle::comm_detail
