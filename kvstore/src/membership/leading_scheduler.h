// A scheduler that decides as long as its state store says so, and says nothing before what it says is saved.
#pragma once

#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "membership/scheduler_core.h"
#include "membership/state_store.h"

namespace heddle::kv_detail {

class LeadingScheduler {
 public:
  // `random`: numbers for new clusters, not 0.
  LeadingScheduler(const StoreSchedulerOptions& options, std::function<std::uint64_t()> random)
      : options_(options), random_(std::move(random)) {}

  // Null: another scheduler decides, or may do so.
  SchedulerCore* core() { return core_ ? &*core_ : nullptr; }
  const SchedulerCore* core() const { return core_ ? &*core_ : nullptr; }
  // Begins or ends as the state store says. Returns the peers that are to be closed. Throws as SchedulerCore does.
  std::vector<Peer> follow(StateStore& store, StateStore::Time now);
  // Has saved what the core has decided. Returns what may be sent, in this order.
  std::vector<SchedulerOutbox> deliver(StateStore& store);
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
