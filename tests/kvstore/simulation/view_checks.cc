#include "simulation/view_checks.h"

#include <doctest/doctest.h>

namespace heddle::kv_detail::sim {

void ViewChecks::decided(std::uint32_t shard, const ShardView& view) {
  ShardView fixed = view;
  fixed.learner = fixed.learner_copy = 0;  // learners may change within an epoch
  CHECK(decided_.try_emplace({shard, view.epoch}, fixed).first->second == fixed);
  if (view.fresh && view.epoch > 1) begun_anew_.insert(shard);
}

void ViewChecks::saved(const SchedulerState& state) {
  CHECK(state.views.version >= state_.views.version);
  for (std::uint32_t shard = 0; shard < state.views.shards.size(); ++shard) {
    const ShardView& view = state.views.shards[shard];
    decided(shard, view);
    CHECK((state_.views.shards.empty() || view.epoch >= state_.views.shards[shard].epoch));
  }
  state_ = state;
}

// The saved state may be newer than the views that a process gets: the scheduler saves once, and then sends
// all decisions since the last save.
void ViewChecks::told(const Views& before, const Views& now) {
  CHECK(now.version > before.version);
  CHECK(now.version <= state_.views.version);
  for (std::uint32_t shard = 0; shard < now.shards.size(); ++shard) {
    const ShardView& view = now.shards[shard];
    decided(shard, view);
    CHECK(view.epoch <= state_.views.shards[shard].epoch);
    CHECK((before.shards.empty() || view.epoch >= before.shards[shard].epoch));
  }
}

// If a shard was lost, its former primary may still answer workers until it gets the new views. These workers
// get an error when they connect to the new primary.
void ViewChecks::answered(const std::string& server, std::uint32_t shard, std::uint64_t epoch) {
  Answer& last = last_[shard];
  if (!has_begun_anew(shard)) CHECK(epoch >= last.epoch);
  if (epoch == last.epoch) CHECK(server == last.server);
  if (epoch > last.epoch) last = {epoch, server};
}

bool ViewChecks::greeted(std::uint32_t shard, std::uint64_t incarnation) {
  const bool same = incarnations_.try_emplace(shard, incarnation).first->second == incarnation;
  CAPTURE(shard);
  if (!same) CHECK(has_begun_anew(shard));
  return same;
}

}  // namespace heddle::kv_detail::sim
