#include "host_survivors.h"

#include <algorithm>
#include <cstring>
#include <thread>

namespace heddle::detail {
namespace {

// Nobody rings for what is waited for here, and it happens once.
constexpr std::chrono::milliseconds kPause{1};

}  // namespace

HostSurvivors::HostSurvivors(HostGroup& group, std::chrono::milliseconds timeout, std::uint32_t epoch)
    : group_(group),
      timeout_(timeout),
      epoch_(epoch),
      beats_(static_cast<std::size_t>(group.size())),
      seen_(static_cast<std::size_t>(group.size()), Clock::now()) {
  group_.give_up(Fault::aborted, group_.rank(), "rank " + std::to_string(group_.rank()) + " called shrink");
  group_.mine().survivor.ready.store(1, std::memory_order_release);
  const auto end = Clock::now() + 2 * timeout_;
  while (!decide()) {
    if (Clock::now() > end) {
      std::string missing;
      for (int rank = 0; rank < group_.size(); ++rank) {
        if (lives(rank) && !group_.segment().board(rank).survivor.ready.load(std::memory_order_acquire)) {
          missing += (missing.empty() ? "" : ", ") + std::to_string(rank);
        }
      }
      throw CommError("shrink: these ranks live, but have not called it: " + missing);
    }
    std::this_thread::sleep_for(kPause);
  }
  take_decision();
}

bool HostSurvivors::lives(int rank) {
  if (rank == group_.rank()) return true;
  if (!group_.alive(rank)) return false;
  if (!group_.has_heartbeats()) return true;
  const auto index = static_cast<std::size_t>(rank);
  const std::uint64_t beat = group_.segment().board(rank).heartbeat.load(std::memory_order_relaxed);
  if (std::exchange(beats_[index], beat) != beat) seen_[index] = Clock::now();
  return Clock::now() - seen_[index] <= timeout_;
}

// True once it has been decided who has survived.
bool HostSurvivors::decide() {
  FaultBoard& board = group_.segment().fault();
  if (board.decided.load(std::memory_order_acquire) == 2) return true;
  std::vector<std::uint64_t> alive(kMostRanks / 64);
  for (int rank = 0; rank < group_.size(); ++rank) {
    if (!lives(rank)) continue;
    if (!group_.segment().board(rank).survivor.ready.load(std::memory_order_acquire)) return false;
    alive[static_cast<std::size_t>(rank) / 64] |= std::uint64_t{1} << (rank % 64);
  }
  std::uint64_t nobody = 0;
  if (!board.decided.compare_exchange_strong(nobody, 1)) return false;
  std::copy(alive.begin(), alive.end(), board.survived);
  board.decided.store(2, std::memory_order_release);
  return true;
}

void HostSurvivors::take_decision() {
  const FaultBoard& board = group_.segment().fault();
  for (int rank = 0; rank < group_.size(); ++rank) {
    if (!(board.survived[rank / 64] >> (rank % 64) & 1)) continue;
    if (rank == group_.rank()) rank_ = static_cast<int>(members_.size());
    members_.push_back(rank);
  }
  if (rank_ < 0)
    throw PeerLost("shrink: the other ranks took this one for dead, and went on without it", group_.rank());
}

std::vector<std::string> HostSurvivors::all_gather(const std::string& mine) {
  const std::uint64_t round = ++rounds_;
  Survivor& here = group_.mine().survivor;
  const std::size_t length = std::min(mine.size(), kNote - 1);
  std::memcpy(here.note[round % 2], mine.data(), length);
  here.note[round % 2][length] = '\0';
  here.noted.store(round, std::memory_order_release);
  std::vector<std::string> all;
  for (int rank : members_) {
    const Survivor& there = group_.segment().board(rank).survivor;
    while (there.noted.load(std::memory_order_acquire) < round) {
      if (!lives(rank)) throw PeerLost("shrink: rank " + std::to_string(rank) + " is gone too", rank);
      std::this_thread::sleep_for(kPause);
    }
    all.emplace_back(there.note[round % 2]);
  }
  return all;
}

}  // namespace heddle::detail
