// How the ranks of a host that are left after a fault hear each other: through what they still share.
#pragma once

#include <vector>

#include "bootstrap/survivors.h"
#include "host/host_group.h"

namespace heddle::comm_detail {

// Each rank's word lies on its rank block, and only that rank writes it: who dies over it leaves the one before.
class HostControlChannel final : public ControlChannel {
 public:
  HostControlChannel(HostGroup& group, std::chrono::milliseconds timeout);
  int rank() const override { return group_.rank(); }
  int size() const override { return group_.size(); }
  bool lives(int rank) override;
  void say(const std::string& word) override;
  std::string hear(int rank) override;
  void wait() override;

 private:
  using Clock = std::chrono::steady_clock;
  struct Pulse {
    std::uint64_t beat = 0;
    Clock::time_point since{}, looked{};
  };
  HostGroup& group_;
  const std::chrono::milliseconds timeout_;
  std::vector<Pulse> pulses_;  // of the others, as last seen
};

}  // namespace heddle::comm_detail
