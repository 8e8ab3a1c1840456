// What message-passing algorithms run on: ordered channels of bytes between every two ranks.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/collective.h"

namespace heddle::comm_detail {

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
  // By rank, the number of its host, where ways inside hosts are faster than those between them. Empty: all are alike.
  virtual const std::vector<int>& hosts() const {
    static const std::vector<int> alike;
    return alike;
  }

  // What the next transfers belong to: every message carries it, and one that arrives with another `agreement` throws
  // CommMismatch (naming both calls), after all ranks have been told. With call.failed this rank has nothing to send,
  // and `failure` says why: its messages are that text instead of data. `members`: of several calls that go as one.
  virtual void begin(const CallRecord& call, const std::string& failure,
                     std::span<const CallRecord> members = {}) = 0;
  // Blocks until `out` may be used again and `in` is there. Throws CommMismatch, PeerLost, PeerSilent, CommAborted.
  // If such a text comes instead of data, `in` is left as it is, and from then on this rank sends the text too.
  virtual void transfer(const Transfer& transfer) = 0;
  // The call has come to its end here. Says what came instead of data, or what `begin` was given; rank -1: nothing.
  struct Missing {
    int rank = -1;
    std::string why{};
  };
  virtual Missing end() = 0;
  // The least CallRecord::ahead of those whose messages of the last call have come, directly or by way of others.
  virtual std::uint8_t ahead() const { return 0; }

  // Every call on every rank, now and later, throws CommAborted with `why`, also those that are waiting. Any thread.
  virtual void abort(const std::string& why) noexcept = 0;
};

}  // namespace heddle::comm_detail
