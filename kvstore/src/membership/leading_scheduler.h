// Runs a SchedulerCore while the state store lets this scheduler lead, and holds its messages until the
// decisions before them are saved.
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
  // `random` makes numbers for new clusters and secrets, not 0.
  LeadingScheduler(const StoreSchedulerOptions& options, std::function<std::uint64_t()> random)
      : options_(options), random_(std::move(random)) {}

  // Null: this scheduler does not lead.
  SchedulerCore* core() { return core_ ? &*core_ : nullptr; }
  const SchedulerCore* core() const { return core_ ? &*core_ : nullptr; }
  // Makes or ends the core, as the state store says. Returns peers to close. Throws as SchedulerCore does.
  std::vector<Peer> follow(StateStore& store, StateStore::Time now);
  // Saves what the core has decided. Returns what may be sent now, in this order.
  std::vector<SchedulerOutbox> deliver(StateStore& store);
  std::vector<Peer> step_down();

 private:
  const StoreSchedulerOptions& options_;
  const std::function<std::uint64_t()> random_;
  std::optional<SchedulerCore> core_;
  std::uint64_t term_ = 0;
  std::uint64_t newest_save_ = 0;  // number of the newest save of this term
  // Outboxes that are held, with the numbers of the saves that they wait for.
  std::deque<std::pair<std::uint64_t, SchedulerOutbox>> held_;
};

}  // namespace heddle::kv_detail
