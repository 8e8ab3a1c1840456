// Keeps a scheduler's decisions, and says whether this scheduler may decide.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <heddle/server.h>

#include "membership/scheduler_state.h"

namespace heddle::kv_detail {

// The scheduler's thread calls all functions.
class StateStore {
 public:
  using Time = std::chrono::steady_clock::time_point;
  virtual ~StateStore() = default;

  // 0: another scheduler leads, or may lead. Else a number that changes each time that this scheduler becomes
  // the leader. Throws Error if it can never become the leader.
  virtual std::uint64_t term(Time now) = 0;
  // The state saved before this term; empty: there is none.
  virtual std::optional<SchedulerState> state() = 0;
  // Begins to save the state. Returns the number of the save; numbers rise from 1 on.
  virtual std::uint64_t save(std::uint64_t term, const SchedulerState& state) = 0;
  // Number of the newest save that is kept for good; all before it are, too.
  virtual std::uint64_t saved() = 0;
  // Address of another scheduler that leads, if it is known.
  virtual std::string leader() { return ""; }
  virtual std::vector<ServerEvent> take_events() { return {}; }
};

}  // namespace heddle::kv_detail
