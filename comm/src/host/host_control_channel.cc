#include "host/host_control_channel.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <thread>
#include <utility>

namespace heddle::comm_detail {
namespace {

// The interval at which messages are polled. No rank is woken for a message, since a shrink is rare.
constexpr std::chrono::milliseconds kPause{1};

static_assert(kSurvivorMessageWords * sizeof(std::uint64_t) == kMaxSurvivorMessage);

}  // namespace

HostControlChannel::HostControlChannel(HostGroup& group, std::chrono::milliseconds timeout)
    : group_(group), timeout_(timeout), heartbeats_(static_cast<std::size_t>(group.size())) {}

bool HostControlChannel::is_alive(int rank) {
  if (!group_.alive(rank)) return false;
  if (!group_.has_heartbeats()) return true;
  Heartbeat& heartbeat = heartbeats_[static_cast<std::size_t>(rank)];
  const auto now = Clock::now();
  const std::uint64_t count = group_.segment().rank_block(rank).heartbeat.load(std::memory_order_relaxed);
  // After a pause of its own, such as a stop by a signal, this rank cannot tell how long another one has been silent.
  const bool checked = now - std::exchange(heartbeat.checked, now) <= timeout_ / 4 + 20 * kPause;
  if (std::exchange(heartbeat.count, count) != count || !checked) heartbeat.changed = now;
  return now - heartbeat.changed <= timeout_;
}

// All parts of a message are stored with release and loaded with acquire. A reader that loads a part of the
// message after the next one also sees that `count` has changed, and reads again.
void HostControlChannel::broadcast(const std::string& message) {
  SurvivorSlot& slot = group_.own_block().survivor;
  const std::uint64_t next = slot.count.load(std::memory_order_relaxed) + 1;
  std::array<std::uint64_t, kSurvivorMessageWords> parts{};
  std::memcpy(parts.data(), message.data(), std::min(message.size(), sizeof parts));
  for (std::size_t i = 0; i < (message.size() + 7) / 8; ++i) {
    slot.message[next % 2][i].store(parts[i], std::memory_order_release);
  }
  slot.bytes[next % 2].store(message.size(), std::memory_order_release);
  slot.count.store(next, std::memory_order_release);
}

std::string HostControlChannel::latest_message(int rank) {
  const SurvivorSlot& slot = group_.segment().rank_block(rank).survivor;
  for (;;) {
    const std::uint64_t count = slot.count.load(std::memory_order_acquire);
    if (count == 0) return {};
    const std::uint64_t bytes =
        std::min<std::uint64_t>(slot.bytes[count % 2].load(std::memory_order_acquire), kMaxSurvivorMessage);
    std::array<std::uint64_t, kSurvivorMessageWords> parts{};
    for (std::size_t i = 0; i < (bytes + 7) / 8; ++i) {
      parts[i] = slot.message[count % 2][i].load(std::memory_order_acquire);
    }
    if (slot.count.load(std::memory_order_relaxed) != count) continue;
    return {reinterpret_cast<const char*>(parts.data()), bytes};
  }
}

void HostControlChannel::wait() { std::this_thread::sleep_for(kPause); }

}  // namespace heddle::comm_detail
