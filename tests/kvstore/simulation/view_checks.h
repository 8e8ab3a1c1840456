// Checks the scheduler's decisions, and which servers answer workers.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "membership/scheduler_state.h"
#include "wire/views.h"

namespace heddle::kv_detail::sim {

class ViewChecks {
 public:
  // Called when the scheduler has saved this state. Checks that all views of a shard with the same epoch are
  // equal.
  void saved(const SchedulerState& state);
  // Called when a process that had the views `before` gets the views `now`. Checks that `now` is newer, and
  // saved already.
  void told(const Views& before, const Views& now);
  // Called when a server has sent a worker a message about a shard. Checks that in each epoch only one server
  // does so, and that epochs do not go back.
  void answered(const std::string& server, std::uint32_t shard, std::uint64_t epoch);
  // Called when a server has welcomed a worker and told it this incarnation of the shard's state. Returns
  // false if the incarnation is not the shard's first, so that pushes are lost.
  bool greeted(std::uint32_t shard, std::uint64_t incarnation);

  // Whether the shard has lost its state and begun with an empty one.
  bool has_begun_anew(std::uint32_t shard) const { return begun_anew_.contains(shard); }
  bool any_begun_anew() const { return !begun_anew_.empty(); }
  const SchedulerState& state() const { return state_; }

 private:
  struct Answer {
    std::uint64_t epoch = 0;
    std::string server{};
  };
  void decided(std::uint32_t shard, const ShardView& view);

  SchedulerState state_{};
  std::map<std::pair<std::uint32_t, std::uint64_t>, ShardView> decided_;  // decided views by shard and epoch
  std::set<std::uint32_t> begun_anew_;
  std::map<std::uint32_t, Answer> last_;                 // by shard, the answer with the newest epoch
  std::map<std::uint32_t, std::uint64_t> incarnations_;  // the first incarnation of each shard's state
};

}  // namespace heddle::kv_detail::sim
