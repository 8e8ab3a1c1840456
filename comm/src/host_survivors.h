// The ranks of a host that are left after a fault, and how they find each other: through what they still share.
#pragma once

#include <vector>

#include "host_group.h"
#include "rendezvous.h"

namespace heddle::detail {

// Whether a rank is taken for dead is decided once, by one of them, for all; a rank that is wrongly taken for dead finds
// that out. What the rendezvous leads to is a segment of its own, so a rank that dies meanwhile is found there.
class HostSurvivors final : public Rendezvous {
 public:
  // Blocks until all that live have come here. Throws CommError saying who has not, after twice the timeout, and
  // PeerLost if the others have gone on without this rank.
  HostSurvivors(HostGroup& group, std::chrono::milliseconds timeout, std::uint32_t epoch);
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(members_.size()); }
  std::uint32_t epoch() const override { return epoch_; }
  std::vector<std::string> all_gather(const std::string& mine) override;

 private:
  using Clock = std::chrono::steady_clock;
  bool lives(int rank);
  bool decide();
  void take_decision();
  HostGroup& group_;
  const std::chrono::milliseconds timeout_;
  const std::uint32_t epoch_;
  std::vector<std::uint64_t> beats_;
  std::vector<Clock::time_point> seen_;
  std::vector<int> members_;
  int rank_ = -1;
  std::uint64_t rounds_ = 0;
};

}  // namespace heddle::detail
