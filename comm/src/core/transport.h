// The transport that message-passing algorithms use: ordered messages between every two ranks.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/collective.h"

namespace heddle::comm_detail {

// A message to send and one to receive, at the same time. Either may be missing (rank -1).
struct Transfer {
  int to = -1;
  std::span<const std::byte> out{};
  int from = -1;
  std::span<std::byte> in{};
  // If not null, the received message is combined with `in`, in pieces of whole elements as they arrive: in =
  // combine(in, arriving), or combine(arriving, in) with arriving_first.
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
  // The number of each rank's host. Empty if messages inside a host are not faster than those between hosts.
  virtual const std::vector<int>& hosts() const {
    static const auto& alike = *new std::vector<int>;
    return alike;
  }

  // Begins a call; the following transfers belong to it. Every message carries the call's record. A message
  // with another `agreement` fails the communicator on all ranks with a CommMismatch that names the two
  // calls. With call.failed this rank has no data: its messages contain the text `failure` instead.
  // `members`: the calls that are fused into this call.
  virtual void begin(const CallRecord& call, const std::string& failure,
                     std::span<const CallRecord> members = {}) = 0;
  // Blocks until `out` has been sent and `in` received. Throws CommMismatch, PeerLost, PeerSilent, CommAborted. If a
  // text arrives instead of data, `in` is not written, and this rank sends the text, too, from then on.
  virtual void transfer(const Transfer& transfer) = 0;
  // What end() returns when it ends the call: the text that replaced the data (or the text `failure` of
  // begin()), and the rank that has no data. Rank -1: the data came.
  struct Missing {
    int rank = -1;
    std::string why{};
  };
  virtual Missing end() = 0;
  // The smallest CallRecord::ahead of this rank and of all ranks on whose messages the received ones depend.
  virtual std::uint8_t ahead() const { return 0; }

  // Makes all current and later calls of all ranks throw CommAborted with `why`. Any thread.
  virtual void abort(const std::string& why) noexcept = 0;
};

}  // namespace heddle::comm_detail
