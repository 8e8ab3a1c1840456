// The control channel of ranks that share a host's memory: the messages are in that memory, which outlives a fault.
#pragma once

#include <vector>

#include "bootstrap/survivors.h"
#include "host/host_group.h"

namespace heddle::comm_detail {

// Each rank's message is in its rank block, which only that rank writes. If a rank dies while it writes, its
// previous message stays.
class HostControlChannel final : public ControlChannel {
 public:
  HostControlChannel(HostGroup& group, std::chrono::milliseconds timeout);
  int rank() const override { return group_.rank(); }
  int size() const override { return group_.size(); }
  bool is_alive(int rank) override;
  void broadcast(const std::string& message) override;
  std::string latest_message(int rank) override;
  void wait() override;

 private:
  using Clock = std::chrono::steady_clock;
  struct Heartbeat {
    std::uint64_t count = 0;
    Clock::time_point changed{}, checked{};
  };
  HostGroup& group_;
  const std::chrono::milliseconds timeout_;
  std::vector<Heartbeat> heartbeats_;  // the other ranks' heartbeats, as last read
};

}  // namespace heddle::comm_detail
