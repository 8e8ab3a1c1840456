// The scheduler as a process on a simulated network. Its state file survives the process.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <vector>

#include <heddle/store_scheduler.h>

#include "membership/scheduler_core.h"
#include "simulation/network.h"
#include "simulation/view_checks.h"

namespace heddle::kv_detail::sim {

constexpr std::chrono::milliseconds kSchedulerTick{20};

class SchedulerProcess final : public Process {
 public:
  struct Counts {
    int failovers = 0, returned = 0, lost = 0;
  };
  using File = std::vector<std::byte>;  // the bytes of the state file; empty: there is no file

  SchedulerProcess(Network& network, SimTransport& transport, const StoreSchedulerOptions& options,
                   File& file, ViewChecks& checks, Counts& counts);

  void tick() override;
  void connected(Peer peer, const std::string& key) override;
  void disconnected(Peer peer, const std::string& why) override;
  std::span<std::byte> memory_for(Peer, std::span<const std::byte>, std::size_t) override { return {}; }
  void received(Peer peer, std::span<const std::byte> head, std::span<std::byte> payload) override;

  const SchedulerCore& core() const { return core_; }
  // One in so many outboxes with a state to save is cut off: the process dies in the middle of handling it,
  // and calls on_death. 0: the process never dies so.
  std::uint64_t dies_once_in = 0;
  std::function<void()> on_death{};
  std::function<void(const ServerEvent&)> on_event{};

 private:
  void deliver();
  void save(const SchedulerState& state);
  bool is_given_up(std::uint64_t incarnation) const;

  Network& network_;
  SimTransport& transport_;
  const StoreSchedulerOptions options_;
  File& file_;
  ViewChecks& checks_;
  Counts& counts_;
  SchedulerCore core_;
  const Clock::time_point begun_;
  Clock::time_point next_tick_;
  std::map<Peer, std::uint64_t> incarnations_;
  // When the scheduler has last heard from each incarnation.
  std::map<std::uint64_t, Clock::time_point> heard_;
  std::set<std::uint64_t> news_;  // incarnations that the scheduler has heard since it last handled an outbox
  bool dead_ = false;
};

}  // namespace heddle::kv_detail::sim
