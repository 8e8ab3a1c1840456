// What has to be true of the scheduler's decisions, and of who answers workers.
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
  // The scheduler has saved this. An epoch is decided once.
  void saved(const SchedulerState& state);
  // A process that knew `before` is told: of nothing that was not saved, and of nothing older.
  void told(const Views& before, const Views& now);
  // A server tells a worker something about a shard.
  void answered(const std::string& server, std::uint32_t shard, std::uint64_t epoch);
  // A worker is greeted by a server whose state of the shard has this incarnation. False: it is not that of the first worker
  // that was greeted, so what workers have pushed is lost.
  bool greeted(std::uint32_t shard, std::uint64_t incarnation);

  // Whether what was before is lost.
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
