#include "membership/file_state_store.h"

#include <utility>

#include <heddle/error.h>

namespace heddle::kv_detail {
namespace {

constexpr std::chrono::seconds kWriteAgain{1};
constexpr std::chrono::seconds kQuietAboutWrites{10};  // time between two log lines about the same trouble

}  // namespace

FileStateStore::FileStateStore(const std::string& path) {
  if (path.empty()) return;
  file_.emplace(path);
  state_ = file_->read();
}

std::uint64_t FileStateStore::term(Time now) {
  if (unsaved_ && now >= again_) write(now);
  return 1;
}

std::uint64_t FileStateStore::save(std::uint64_t, const SchedulerState& state) {
  ++saves_;
  unsaved_ = state;
  if (!failing_) write(std::chrono::steady_clock::now());
  return saves_;
}

std::vector<ServerEvent> FileStateStore::take_events() { return std::exchange(events_, {}); }

void FileStateStore::write(Time now) {
  try {
    if (file_) file_->write(*unsaved_);
  } catch (const Error& error) {
    again_ = now + kWriteAgain;
    if (!failing_ || now >= quiet_until_) {
      events_.push_back({ServerEvent::Level::error,
                         "state_not_saved",
                         {{"why", error.what()}, {"then", "servers and workers wait until it is"}}});
      quiet_until_ = now + kQuietAboutWrites;
    }
    failing_ = true;
    return;
  }
  saved_ = saves_;
  unsaved_.reset();
  if (std::exchange(failing_, false)) events_.push_back({ServerEvent::Level::info, "state_saved", {}});
}

}  // namespace heddle::kv_detail
