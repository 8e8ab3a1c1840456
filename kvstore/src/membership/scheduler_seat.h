// A scheduler that decides as long as its keeper says so, and says nothing before what it says is saved.
#pragma once

#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "membership/scheduler_core.h"
#include "membership/state_keeper.h"

namespace heddle::kv_detail {

class SchedulerSeat {
 public:
  // `random`: numbers for new clusters, not 0.
  SchedulerSeat(const StoreSchedulerOptions& options, std::function<std::uint64_t()> random)
      : options_(options), random_(std::move(random)) {}

  // Null: another scheduler decides, or may do so.
  SchedulerCore* core() { return core_ ? &*core_ : nullptr; }
  const SchedulerCore* core() const { return core_ ? &*core_ : nullptr; }
  // Begins or ends as the keeper says. Returns the peers that are to be closed. Throws as SchedulerCore does.
  std::vector<Peer> follow(StateKeeper& keeper, StateKeeper::Time now);
  // Has saved what the core has decided. Returns what may be sent, in this order.
  std::vector<SchedulerOutbox> deliver(StateKeeper& keeper);
  std::vector<Peer> step_down();

 private:
  const StoreSchedulerOptions& options_;
  const std::function<std::uint64_t()> random_;
  std::optional<SchedulerCore> core_;
  std::uint64_t term_ = 0;
  std::uint64_t newest_save_ = 0;  // of this term
  // What waits: the number of the save that it waits for.
  std::deque<std::pair<std::uint64_t, SchedulerOutbox>> held_;
};

}  // namespace heddle::kv_detail
