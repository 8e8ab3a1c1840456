// Keeps a scheduler's decisions in a file of its own, or nowhere.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "membership/state_store.h"

namespace heddle::kv_detail {

// For a scheduler that is the only one, and so always leads. save() blocks until the state is on the disk. A
// write that fails, for example because the disk is full, is tried again every second; until then decisions
// are not published.
class FileStateStore final : public StateStore {
 public:
  // If `path` is empty, nothing is saved. Throws Error with the path if the file cannot be used.
  explicit FileStateStore(const std::string& path);

  std::uint64_t term(Time now) override;
  std::optional<SchedulerState> state() override { return state_; }
  std::uint64_t save(std::uint64_t term, const SchedulerState& state) override;
  std::uint64_t saved() override { return saved_; }
  std::vector<ServerEvent> take_events() override;

 private:
  void write(Time now);

  std::optional<StateFile> file_;
  std::optional<SchedulerState> state_, unsaved_;
  std::uint64_t saves_ = 0, saved_ = 0;
  Time again_{}, quiet_until_{};
  bool failing_ = false;
  std::vector<ServerEvent> events_;
};

}  // namespace heddle::kv_detail
