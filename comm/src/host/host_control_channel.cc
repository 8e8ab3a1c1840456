#include "host/host_control_channel.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <thread>
#include <utility>

namespace heddle::comm_detail {
namespace {

// Nobody rings for what is waited for here, and it happens once.
constexpr std::chrono::milliseconds kPause{1};

static_assert(kSurvivorWord * sizeof(std::uint64_t) == kLongestWord);

}  // namespace

HostControlChannel::HostControlChannel(HostGroup& group, std::chrono::milliseconds timeout)
    : group_(group), timeout_(timeout), pulses_(static_cast<std::size_t>(group.size())) {}

bool HostControlChannel::lives(int rank) {
  if (!group_.alive(rank)) return false;
  if (!group_.has_heartbeats()) return true;
  Pulse& pulse = pulses_[static_cast<std::size_t>(rank)];
  const auto now = Clock::now();
  const std::uint64_t beat = group_.segment().rank_block(rank).heartbeat.load(std::memory_order_relaxed);
  // Who has not looked for a while, or was stopped itself, cannot tell how long another one has been silent.
  const bool looked = now - std::exchange(pulse.looked, now) <= timeout_ / 4 + 20 * kPause;
  if (std::exchange(pulse.beat, beat) != beat || !looked) pulse.since = now;
  return now - pulse.since <= timeout_;
}

// Release and acquire on every part: who reads a part of the next word but one sees that the next one is there, and
// reads again.
void HostControlChannel::say(const std::string& word) {
  SurvivorBoard& here = group_.mine().survivor;
  const std::uint64_t next = here.said.load(std::memory_order_relaxed) + 1;
  std::array<std::uint64_t, kSurvivorWord> parts{};
  std::memcpy(parts.data(), word.data(), std::min(word.size(), sizeof parts));
  for (std::size_t i = 0; i < (word.size() + 7) / 8; ++i) {
    here.word[next % 2][i].store(parts[i], std::memory_order_release);
  }
  here.bytes[next % 2].store(word.size(), std::memory_order_release);
  here.said.store(next, std::memory_order_release);
}

std::string HostControlChannel::hear(int rank) {
  const SurvivorBoard& there = group_.segment().rank_block(rank).survivor;
  for (;;) {
    const std::uint64_t said = there.said.load(std::memory_order_acquire);
    if (said == 0) return {};
    const std::uint64_t bytes =
        std::min<std::uint64_t>(there.bytes[said % 2].load(std::memory_order_acquire), kLongestWord);
    std::array<std::uint64_t, kSurvivorWord> parts{};
    for (std::size_t i = 0; i < (bytes + 7) / 8; ++i) {
      parts[i] = there.word[said % 2][i].load(std::memory_order_acquire);
    }
    if (there.said.load(std::memory_order_relaxed) != said) continue;
    return {reinterpret_cast<const char*>(parts.data()), bytes};
  }
}

void HostControlChannel::wait() { std::this_thread::sleep_for(kPause); }

}  // namespace heddle::comm_detail
