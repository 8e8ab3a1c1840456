// Keeps a scheduler's decisions in a file of its own, or nowhere.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "membership/state_store.h"

namespace heddle::kv_detail {

// There is no other scheduler. This one always leads. save() blocks for the disk. A write that fails, because
// the disk is full, is tried again every second: meanwhile decisions are not published.
class FileStateStore final : public StateStore {
 public:
  // An empty path: no file. Throws Error with the path if the file cannot be used.
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
