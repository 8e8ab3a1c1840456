// Numbers the calls of one rank, so that the n-th call of each rank matches the n-th calls of the others.
#pragma once

#include <cstdint>
#include <vector>

#include "core/collective.h"

namespace heddle::comm_detail {

// One thread at a time.
class CallNumbers {
 public:
  CallNumbers(int ranks, std::uint32_t epoch, Algorithm algorithm)
      : epoch_(epoch),
        algorithm_(algorithm),
        sent_(static_cast<std::size_t>(ranks)),
        received_(static_cast<std::size_t>(ranks)) {}

  // Each fused call has a number of its own; the call that they are fused into has the number of the first.
  void number(Collective& call) {
    if (call.members.empty()) return number(call.record);
    for (CallRecord& member : call.members) number(member);
    call.record.epoch = epoch_;
    call.record.sequence = call.members.front().sequence;
    call.record.algorithm = algorithm_;
    call.record.set_agreement(call.members);
  }
  // Sends and recvs are counted by pair, since only two ranks take part in them.
  void number(CallRecord& record) {
    record.epoch = epoch_;
    if (record.kind == Kind::send) {
      record.sequence = ++sent_[static_cast<std::size_t>(record.root)];
    } else if (record.kind == Kind::recv) {
      record.sequence = ++received_[static_cast<std::size_t>(record.root)];
    } else {
      record.sequence = ++calls_;
      record.algorithm = algorithm_;
    }
    record.set_agreement();
  }

 private:
  const std::uint32_t epoch_;
  const Algorithm algorithm_;
  std::uint64_t calls_ = 0;
  // By rank: number of messages sent to that rank, and received from that rank.
  std::vector<std::uint64_t> sent_, received_;
};

}  // namespace heddle::comm_detail
