#include "simulation/scheduler_process.h"

#include <utility>

#include <doctest/doctest.h>

namespace heddle::kv_detail::sim {
namespace {

SchedulerState state_in(const SchedulerProcess::File& file, Network& network) {
  return file.empty() ? SchedulerState{.cluster = network.random() | 1, .secret = network.random() | 1}
                      : decode_scheduler_state(file);
}

}  // namespace

SchedulerProcess::SchedulerProcess(Network& network, SimTransport& transport,
                                   const StoreSchedulerOptions& options, File& file, ViewChecks& checks,
                                   Counts& counts)
    : network_(network),
      transport_(transport),
      options_(options),
      file_(file),
      checks_(checks),
      counts_(counts),
      core_(options, state_in(file, network), network.now),
      begun_(network.now),
      next_tick_(network.now) {}

void SchedulerProcess::tick() {
  const auto late = network_.now - next_tick_;
  if (late > options_.server_timeout / 4) core_.paused(late);
  core_.tick(network_.now);
  next_tick_ = network_.now + kSchedulerTick;
  deliver();
}

void SchedulerProcess::connected(Peer peer, const std::string&) { core_.connected(peer); }

void SchedulerProcess::disconnected(Peer peer, const std::string& why) {
  core_.disconnected(peer, why, network_.now);
}

// Handles a message. In one of four cases leaves the outbox for later, so that several messages share an
// outbox.
void SchedulerProcess::received(Peer peer, std::span<const std::byte> head, std::span<std::byte>) {
  if (dead_) return;
  core_.received(peer, head, network_.now);
  const FromMember message = decode_from_member(head);
  if (const auto* registration = std::get_if<Registration>(&message))
    incarnations_[peer] = registration->incarnation;
  news_.insert(incarnations_[peer]);
  if (network_.below(4) != 0) deliver();
}

void SchedulerProcess::deliver() {
  if (dead_) return;
  SchedulerOutbox outbox = core_.take_outbox();
  std::uint64_t steps = ~std::uint64_t{0};
  if (dies_once_in > 0 && outbox.save && network_.below(dies_once_in) == 0)
    steps = network_.below(outbox.messages.size() + 2);
  const auto dies = [&] {
    if (steps-- != 0) return false;
    dead_ = true;
    on_death();
    return true;
  };
  if (dies()) return;
  if (outbox.save) save(*outbox.save);
  // A message counts as heard only after save() has checked the decisions, which may be older than the
  // message.
  for (const std::uint64_t incarnation : std::exchange(news_, {})) heard_[incarnation] = network_.now;
  for (const ServerEvent& event : outbox.events) {
    on_event(event);
    counts_.failovers += event.name == "shard_failed_over";
    counts_.returned += event.name == "shard_handed_back";
    counts_.lost += event.name == "shard_lost";
  }
  for (auto& [peer, message] : outbox.messages) {
    if (dies()) return;
    transport_.send(peer, {std::move(message)});
  }
  for (const Peer peer : outbox.closed) transport_.close(peer);
}

// Saves the state. Checks that a shard becomes empty only if all processes that have its state are given up.
void SchedulerProcess::save(const SchedulerState& state) {
  const SchedulerState before = checks_.state();
  checks_.saved(state);
  file_ = encode(state);
  for (std::uint32_t shard = 0; shard < before.views.shards.size(); ++shard) {
    const ShardView &old = before.views.shards[shard], &now = state.views.shards[shard];
    if (!now.fresh || now.epoch == old.epoch) continue;
    const bool synced = before.synced[shard] == old.epoch || old.handover;
    CAPTURE(shard);
    CAPTURE(now.epoch);
    CHECK(is_given_up(old.primary));
    if (synced && old.backup != 0) CHECK(is_given_up(old.backup));
  }
}

// Whether the process is given up: another process has its number, or it was silent for `lost_after`.
bool SchedulerProcess::is_given_up(std::uint64_t incarnation) const {
  if (!find_server(core_.views(), incarnation)) return true;
  const auto found = heard_.find(incarnation);
  const auto heard = found == heard_.end() ? begun_ : found->second;
  return options_.lost_after.count() > 0 && network_.now - heard >= options_.lost_after;
}

}  // namespace heddle::kv_detail::sim
