#include "server/job/workers.h"

#include <algorithm>
#include <utility>

namespace heddle::kv_detail {

Workers::Workers(const std::string& job, std::uint32_t count, Clock::time_point now)
    : all_(count), required_(count, true), pushing_(required_) {
  for (std::uint32_t rank = 0; rank < count; ++rank) {
    all_[rank].stats.job = job;
    all_[rank].stats.rank = static_cast<int>(rank);
    all_[rank].last_seen = now;
  }
}

bool Workers::is_connected(const Hello& hello) const {
  if (hello.rank >= size()) return false;
  const JobWorker& worker = all_[hello.rank];
  return worker.peer != 0 && worker.incarnation != hello.incarnation;
}

bool Workers::has_had(const Hello& hello) const {
  return hello.rank < size() && all_[hello.rank].greeted && all_[hello.rank].incarnation == hello.incarnation;
}

bool Workers::are_gone() const {
  return std::all_of(all_.begin(), all_.end(), [](const JobWorker& one) { return one.left || one.dropped; });
}

// True if the worker was silent for `timeout`. A worker that has never come is silent only if no worker is
// connected.
bool Workers::is_silent(std::uint32_t rank, Clock::time_point now, Clock::duration timeout) const {
  const JobWorker& worker = all_[rank];
  if (worker.left || worker.dropped || now - worker.last_seen < timeout) return false;
  return worker.greeted ||
         std::none_of(all_.begin(), all_.end(), [](const JobWorker& one) { return one.peer != 0; });
}

void Workers::join(std::uint32_t rank) {
  all_[rank].left = all_[rank].dropped = false;
  update(rank);
}

void Workers::leave(std::uint32_t rank) {
  all_[rank].left = true;
  update(rank);
}

void Workers::drop(std::uint32_t rank) {
  all_[rank].dropped = true;
  update(rank);
}

void Workers::paused(Clock::duration time) {
  for (JobWorker& worker : all_) worker.last_seen += time;
}

bool Workers::have_all_called() const {
  for (std::uint32_t rank = 0; rank < size(); ++rank) {
    if (required_[rank] && !has_called(rank)) return false;
  }
  return true;
}

void Workers::add_call(std::uint32_t rank, const Request& request) {
  calls_[rank] = request;
  update(rank);
}

void Workers::drop_call(std::uint32_t rank) {
  calls_.erase(rank);
  update(rank);
}

Workers::Calls Workers::take_calls() {
  pushing_ = required_;
  return std::exchange(calls_, {});
}

void Workers::update(std::uint32_t rank) {
  required_[rank] = !all_[rank].left && !all_[rank].dropped;
  pushing_[rank] = required_[rank] && !has_called(rank);
}

}  // namespace heddle::kv_detail
