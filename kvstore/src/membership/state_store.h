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

  // Number of the term in which this scheduler leads; it gets a new number each time that it becomes the
  // leader. 0: another scheduler leads, or may lead. Throws Error if this scheduler can never become the
  // leader.
  virtual std::uint64_t term(Time now) = 0;
  // The state that was saved before the present term; empty: there is none.
  virtual std::optional<SchedulerState> state() = 0;
  // Begins to save the state. Returns the number of this save; saves are numbered from 1 on.
  virtual std::uint64_t save(std::uint64_t term, const SchedulerState& state) = 0;
  // Number of the newest save that is done for good. All earlier saves are done, too, or replaced by a later
  // one.
  virtual std::uint64_t saved() = 0;
  // Address of the scheduler that leads, if another one does and its address is known; else empty.
  virtual std::string leader() { return ""; }
  virtual std::vector<ServerEvent> take_events() { return {}; }
};

}  // namespace heddle::kv_detail
