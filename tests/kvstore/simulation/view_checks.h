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
  // The scheduler has saved this state. The views of one epoch are always equal.
  void saved(const SchedulerState& state);
  // A process that had `before` gets `now`: it must be saved already, and newer.
  void told(const Views& before, const Views& now);
  // A server has sent a worker a message about a shard.
  void answered(const std::string& server, std::uint32_t shard, std::uint64_t epoch);
  // A server has welcomed a worker with this incarnation of the shard's state. Returns false if it is not the
  // first one's, so pushes are lost.
  bool greeted(std::uint32_t shard, std::uint64_t incarnation);

  // Whether a former state of the shard is lost.
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
  std::map<std::pair<std::uint32_t, std::uint64_t>, ShardView> decided_;  // by shard and epoch
  std::set<std::uint32_t> begun_anew_;
  std::map<std::uint32_t, Answer> last_;                 // by shard
  std::map<std::uint32_t, std::uint64_t> incarnations_;  // by shard
};

}  // namespace heddle::kv_detail::sim
