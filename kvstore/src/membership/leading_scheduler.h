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
  // `random` makes random numbers other than 0, for ids of new clusters and for secrets.
  LeadingScheduler(const StoreSchedulerOptions& options, std::function<std::uint64_t()> random)
      : options_(options), random_(std::move(random)) {}

  // The core; null: this scheduler does not lead.
  SchedulerCore* core() { return core_ ? &*core_ : nullptr; }
  const SchedulerCore* core() const { return core_ ? &*core_ : nullptr; }
  // Makes the core if the state store says that this scheduler leads, and ends it if it does not. Returns
  // peers to close. Throws as the constructor of SchedulerCore does.
  std::vector<Peer> follow(StateStore& store, StateStore::Time now);
  // Begins to save what the core has decided. Returns outboxes whose decisions are saved, to be sent in this
  // order.
  std::vector<SchedulerOutbox> deliver(StateStore& store);
  std::vector<Peer> step_down();

 private:
  const StoreSchedulerOptions& options_;
  const std::function<std::uint64_t()> random_;
  std::optional<SchedulerCore> core_;
  std::uint64_t term_ = 0;
  std::uint64_t newest_save_ = 0;  // number of the newest save of this term
  // Outboxes that wait until their decisions are saved, with the numbers of the saves.
  std::deque<std::pair<std::uint64_t, SchedulerOutbox>> held_;
};

}  // namespace heddle::kv_detail
