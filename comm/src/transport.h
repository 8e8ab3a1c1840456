// What message-passing algorithms run on: ordered channels of bytes between every two ranks.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "collective.h"

namespace heddle::detail {

// One message out and one in, at the same time: neither waits for the other. Either may be missing (rank -1).
struct Transfer {
  int to = -1;
  std::span<const std::byte> out{};
  int from = -1;
  std::span<std::byte> in{};
  // Not null: `in` is combined with what comes, piece by piece as it comes: in = combine(in, arriving), or with
  // arriving_first combine(arriving, in). Pieces hold whole elements.
  Combine combine = nullptr;
  bool arriving_first = false;
};

// One thread at a time, except where stated. A rank may send to itself.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::string name() const = 0;

  // What the next transfers belong to: every message carries it, and one that arrives with another `agreement` throws
  // CommMismatch (naming both calls), after all ranks have been told. Sends and recvs agree with each other.
  virtual void begin(const CallRecord& call) = 0;
  // Blocks until `out` may be used again and `in` is there. Throws CommMismatch, PeerLost, PeerSilent, CommAborted.
  virtual void transfer(const Transfer& transfer) = 0;
  // The call has come to its end here; `error` if it has failed.
  virtual void end(bool failed) = 0;

  // Every call on every rank, now and later, throws CommAborted with `why`, also those that are waiting. Any thread.
  virtual void abort(const std::string& why) noexcept = 0;
};

}  // namespace heddle::detail
