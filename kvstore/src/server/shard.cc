#include "server/shard.h"

#include <random>
#include <utility>

namespace heddle::kv_detail {
namespace {

std::uint64_t random_number() {
  std::random_device device;
  return (std::uint64_t{device()} << 32 | device()) | 1;
}

}  // namespace

void Shard::set_view(const ShardView& view, const std::string& backup, Clock::time_point now) {
  if (view.epoch <= epoch_) return;
  epoch_ = view.epoch;
  const bool primary = view.primary == owner_.incarnation();
  backup_ = {view.backup != 0, backup, view.handover};
  if (primary && view.fresh && !core_) {
    begin(std::make_unique<ServerCore>(core_options(owner_, number_), owner_.incarnation()), now);
  } else if (primary && receiver_ && receiver_->is_complete()) {
    take_over(now);
  } else if (primary && core_) {
    sender_->set_backup(epoch_, backup_, now);
  } else {
    std::unique_ptr<ServerCore> former = stop_serving();
    receiver_ = nullptr;
    if (!view.handover) former = nullptr;
    if (view.backup == owner_.incarnation())
      receiver_ = std::make_unique<ReplicaReceiver>(owner_, number_, epoch_, std::move(former));
    if (primary)
      owner_.log(ServerEvent::Level::error, "state_missing",
                 {{"shard", std::to_string(number_)}, {"epoch", std::to_string(epoch_)}});
  }
}

void Shard::begin(std::unique_ptr<ServerCore> core, Clock::time_point now) {
  core_ = std::move(core);
  sender_ = std::make_unique<ReplicaSender>(owner_, *core_, number_, random_number());
  sender_->set_backup(epoch_, backup_, now);
  owner_.log(
      ServerEvent::Level::info, "primary",
      {{"shard", std::to_string(number_)}, {"epoch", std::to_string(epoch_)}, {"backup", backup_.address}});
}

void Shard::take_over(Clock::time_point now) {
  serves_from_ = receiver_->end_of_lease();
  std::unique_ptr<ServerCore> core = receiver_->take_core();
  receiver_ = nullptr;
  core->promote(std::max(now, serves_from_));
  core->record_changes(false);
  begin(std::move(core), now);
}

// Returns what it had.
std::unique_ptr<ServerCore> Shard::stop_serving() {
  if (!core_) return nullptr;
  for (const Peer peer : core_->peers()) {
    core_->disconnected(peer, "the server is no longer the primary", {});
    owner_.close(peer);
  }
  core_->take_outbox();
  sender_ = nullptr;
  owner_.log(ServerEvent::Level::info, "primary_elsewhere",
             {{"shard", std::to_string(number_)}, {"epoch", std::to_string(epoch_)}});
  return std::move(core_);
}

std::string Shard::obstacle(Clock::time_point now) const {
  if (!core_) return "this server is not the primary of shard " + std::to_string(number_);
  if (now < serves_from_)
    return "this server has just become the primary of shard " + std::to_string(number_);
  return {};
}

void Shard::tick(Clock::time_point now) {
  if (sender_) sender_->tick(now);
  if (!core_ || now < serves_from_) return;
  core_->tick(now);
  say(now);
}

void Shard::say(Clock::time_point now) {
  Outbox outbox = core_->take_outbox();
  sender_->take(outbox, now);
  for (const Peer peer : outbox.closed) owner_.close(peer);
  for (ServerEvent& event : outbox.events) {
    event.fields.emplace_back("shard", std::to_string(number_));
    owner_.log(event.level, event.name.c_str(), std::move(event.fields));
  }
}

void Shard::primary_greeted(Peer peer, const ReplicaMessage& hello) {
  if (hello.epoch == epoch_ && receiver_) return receiver_->greeted(peer, hello);
  const ReplicaMessage refused{.kind = ReplicaKind::refused, .shard = number_, .epoch = epoch_};
  owner_.transport().send(peer, {encode(refused)});
}

void Shard::connected(Peer peer, Clock::time_point now) {
  if (sender_ && sender_->peer() == peer) sender_->connected(now);
}

void Shard::disconnected(Peer peer, const std::string& why, Clock::time_point now) {
  if (sender_ && sender_->peer() == peer) sender_->disconnected(why, now);
  if (receiver_ && receiver_->peer() == peer) receiver_->disconnected();
}

std::span<std::byte> Shard::memory_for(Peer peer, const ReplicaMessage& message, std::size_t bytes) {
  if (receiver_ && receiver_->peer() == peer) return receiver_->memory_for(message, bytes);
  return {};
}

void Shard::received(Peer peer, const ReplicaMessage& message, std::span<const std::byte> payload,
                     Clock::time_point now) {
  if (receiver_ && receiver_->peer() == peer) return receiver_->received(message, payload, now);
  if (!sender_ || sender_->peer() != peer) return;
  sender_->received(message, now);
}

}  // namespace heddle::kv_detail
