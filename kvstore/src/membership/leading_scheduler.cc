#include "membership/leading_scheduler.h"

namespace heddle::kv_detail {

std::vector<Peer> LeadingScheduler::follow(StateStore& store, StateStore::Time now) {
  const std::uint64_t term = store.term(now);
  if (term == term_) return {};
  std::vector<Peer> closed = step_down();
  if (term == 0) return closed;
  std::optional<SchedulerState> saved = store.state();
  SchedulerState state = saved ? std::move(*saved) : SchedulerState{.cluster = random_()};
  if (state.secret == 0) state.secret = random_();
  core_.emplace(options_, std::move(state), now);
  term_ = term;
  return closed;
}

// Ends the core. Decisions that are not saved are dropped: no process was told them.
std::vector<Peer> LeadingScheduler::step_down() {
  std::vector<Peer> peers = core_ ? core_->peers() : std::vector<Peer>();
  core_.reset();
  held_.clear();
  term_ = newest_save_ = 0;
  return peers;
}

// A message may depend on all earlier decisions, so it waits for the newest save.
std::vector<SchedulerOutbox> LeadingScheduler::deliver(StateStore& store) {
  if (!core_) return {};
  SchedulerOutbox outbox = core_->take_outbox();
  if (outbox.save) newest_save_ = store.save(term_, *outbox.save);
  if (!outbox.messages.empty() || !outbox.closed.empty() || !outbox.events.empty())
    held_.emplace_back(newest_save_, std::move(outbox));
  std::vector<SchedulerOutbox> ready;
  if (held_.empty()) return ready;
  const std::uint64_t saved = store.saved();
  for (; !held_.empty() && held_.front().first <= saved; held_.pop_front())
    ready.push_back(std::move(held_.front().second));
  return ready;
}

}  // namespace heddle::kv_detail
