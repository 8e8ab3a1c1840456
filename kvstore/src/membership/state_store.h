// The store of a scheduler's decisions. It also says whether this scheduler is the one that may decide.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <heddle/server.h>

#include "membership/scheduler_state.h"

namespace heddle::kv_detail {

// The scheduler's thread calls all of it.
class StateStore {
 public:
  using Time = std::chrono::steady_clock::time_point;
  virtual ~StateStore() = default;

  // 0: another scheduler decides, or may do so. Else a number that is another one each time that this scheduler has become
  // the leader. Throws Error if it can never go on.
  virtual std::uint64_t term(Time now) = 0;
  // What was decided before this term; empty: nothing.
  virtual std::optional<SchedulerState> state() = 0;
  // Begins to save. Returns the save's number: from 1, it grows.
  virtual std::uint64_t save(std::uint64_t term, const SchedulerState& state) = 0;
  // The newest save that survives whatever happens, and so do those before it.
  virtual std::uint64_t saved() = 0;
  virtual std::string leader() {
    return "";
  }  // where the leader is, as far as it is known, if it is another one
  virtual std::vector<ServerEvent> take_events() { return {}; }
};

}  // namespace heddle::kv_detail
