// A job's reports for the server's log: workers that have never come, and workers that wait for each other.
#include <algorithm>
#include <utility>

#include "server/job/job_waits.h"

namespace heddle::kv_detail {
namespace {

// Times until a report is made, and until it is repeated. kLongOverdue: if a worker that others wait for does
// not wait itself, as it may just compute for long.
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

std::string Job::take_overdue(Clock::time_point now) {
  if (now - overdue_.begun < overdue_.after) return {};
  overdue_.after = now - overdue_.begun + kOverdueAgain;
  std::string text;
  std::size_t names = 0;
  for (std::uint32_t rank = 0; rank < workers_.size(); ++rank) {
    if (workers_[rank].greeted || workers_[rank].dropped || ++names > kMostNames) continue;
    text += (names == 1 ? "" : ", ") + std::to_string(rank);
  }
  if (names > kMostNames) text += " and " + std::to_string(names - kMostNames) + " more";
  return text;
}

std::string Job::take_stall(Clock::time_point now) {
  const Clock::duration still = now - overdue_.stall.since;
  if (still < kOverdue || still < overdue_.stall.next) return {};
  if (overdue_.stall.text.empty()) {
    if (!JobWaits(*this).has_all() && still < kLongOverdue) return {};
    overdue_.stall.text = JobWaits(*this).text();
  }
  overdue_.stall.next = still + kOverdueAgain;
  return overdue_.stall.text;
}

bool JobWaits::has(std::uint32_t rank) const {
  return job_.workers_[rank].waiting > 0 || job_.collective_.contains(rank);
}

bool JobWaits::has_all() const {
  for (std::uint32_t rank = 0; rank < job_.workers_.size(); ++rank) {
    if (job_.required_[rank] && !has(rank)) return false;
  }
  return true;
}

std::string JobWaits::text() const {
  std::string text;
  std::size_t names = 0;
  for (std::uint32_t rank = 0; rank < job_.workers_.size(); ++rank) {
    if (!job_.required_[rank] || !has(rank)) continue;
    const std::string what = text_of(rank);
    if (what.empty() || ++names > kMostNames) continue;
    text += (text.empty() ? "worker " : "; worker ") + std::to_string(rank) + " waits for " + what;
  }
  if (names > kMostNames) text += "; and " + std::to_string(names - kMostNames) + " more";
  return text;
}

std::string JobWaits::text_of(std::uint32_t rank) const {
  std::vector<std::uint32_t> others;
  if (const auto mine = job_.collective_.find(rank); mine != job_.collective_.end()) {
    for (std::uint32_t other = 0; other < job_.workers_.size(); ++other) {
      if (job_.required_[other] && !job_.collective_.contains(other)) others.push_back(other);
    }
    const char* const call = mine->second.kind == Kind::barrier ? "a barrier" : "a set_optimizer";
    return call + (" that " + names_of(others)) + (others.size() == 1 ? " has" : " have") + " not called";
  }
  for (const StoredKey* const key : job_.keys_with_waiters_) {
    for (const auto& [who, request, rows] : key->waiting()) {
      if (who != rank) continue;
      if (!key->has_value()) return "the value of key " + key->name() + ", which worker 0 initialises";
      const bool is_bundle = request.kind == Kind::pull_many;
      const std::uint64_t clock = is_bundle ? request.entries[request.offset - 1].clock : request.clock;
      others = key->behind(rank, clock, job_.job_settings_.consistency, job_.pushing_);
      if (!others.empty()) return "a push of key " + key->name() + " by " + names_of(others);
    }
  }
  return {};
}

}  // namespace heddle::kv_detail
