#include "server/job/stalls.h"

#include <algorithm>
#include <vector>

namespace heddle::kv_detail {
namespace {

// A stall is reported after kOverdue without progress, and again every kOverdueAgain. If a worker that others
// wait for does not wait itself, it may just compute for long: then the first report is made after
// kLongOverdue.
constexpr std::chrono::seconds kOverdue{5}, kOverdueAgain{15}, kLongOverdue{60};
constexpr std::size_t kMostNames = 16;

std::string names_of(const std::vector<std::uint32_t>& ranks) {
  std::string text = ranks.size() == 1 ? "worker " : "workers ";
  for (std::size_t i = 0; i < std::min(ranks.size(), kMostNames); ++i)
    text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  return ranks.size() <= kMostNames ? text
                                    : text + " and " + std::to_string(ranks.size() - kMostNames) + " more";
}

}  // namespace

void Stalls::progress(Clock::time_point now) {
  since_ = now;
  stall_after_ = {};
  text_.clear();
}

void Stalls::paused(Clock::duration time) {
  begun_ += time;
  since_ += time;
}

std::string Stalls::take_missing(Clock::time_point now) {
  if (now - begun_ < missing_after_) return {};
  missing_after_ = now - begun_ + kOverdueAgain;
  std::string text;
  std::size_t names = 0;
  for (std::uint32_t rank = 0; rank < job_.workers.size(); ++rank) {
    if (job_.workers[rank].greeted || job_.workers[rank].dropped || ++names > kMostNames) continue;
    text += (names == 1 ? "" : ", ") + std::to_string(rank);
  }
  if (names > kMostNames) text += " and " + std::to_string(names - kMostNames) + " more";
  return text;
}

std::string Stalls::take_stall(Clock::time_point now) {
  const Clock::duration still = now - since_;
  if (still < kOverdue || still < stall_after_) return {};
  if (text_.empty()) {
    if (!are_all_waiting() && still < kLongOverdue) return {};
    text_ = waits();
  }
  stall_after_ = still + kOverdueAgain;
  return text_;
}

bool Stalls::is_waiting(std::uint32_t rank) const {
  return job_.workers[rank].waiting > 0 || job_.workers.has_called(rank);
}

bool Stalls::are_all_waiting() const {
  for (std::uint32_t rank = 0; rank < job_.workers.size(); ++rank) {
    if (job_.workers.required()[rank] && !is_waiting(rank)) return false;
  }
  return true;
}

std::string Stalls::waits() const {
  std::string text;
  std::size_t names = 0;
  for (std::uint32_t rank = 0; rank < job_.workers.size(); ++rank) {
    if (!job_.workers.required()[rank] || !is_waiting(rank)) continue;
    const std::string what = wait_of(rank);
    if (what.empty() || ++names > kMostNames) continue;
    text += (text.empty() ? "worker " : "; worker ") + std::to_string(rank) + " waits for " + what;
  }
  if (names > kMostNames) text += "; and " + std::to_string(names - kMostNames) + " more";
  return text;
}

std::string Stalls::wait_of(std::uint32_t rank) const {
  const Workers& workers = job_.workers;
  std::vector<std::uint32_t> others;
  if (const auto mine = workers.calls().find(rank); mine != workers.calls().end()) {
    for (std::uint32_t other = 0; other < workers.size(); ++other) {
      if (workers.required()[other] && !workers.has_called(other)) others.push_back(other);
    }
    const char* const call = mine->second.kind == Kind::barrier ? "a barrier" : "a set_optimizer";
    return call + (" that " + names_of(others)) + (others.size() == 1 ? " has" : " have") + " not called";
  }
  for (const JobKey* const listed : job_.keys.listed()) {
    const StoredKey& key = **listed;
    for (const auto& [who, request, rows, left] : listed->waiting) {
      if (who != rank) continue;
      if (!key.has_value()) return "the value of key " + key.name() + ", which worker 0 initialises";
      const bool is_bundle = request.kind == Kind::pull_many;
      const std::uint64_t clock = is_bundle ? request.entries[left - 1].clock : request.clock;
      others = key.pushes().behind(rank, clock, job_.consistency(), workers.pushing());
      if (!others.empty()) return "a push of key " + key.name() + " by " + names_of(others);
    }
  }
  return {};
}

}  // namespace heddle::kv_detail
