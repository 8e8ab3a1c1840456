#include "server/shard.h"

#include <algorithm>
#include <utility>

namespace heddle::kv_detail {
namespace {

// Time until this server tries again to use the folder for snapshots, which another process may still have
// locked.
constexpr std::chrono::seconds kKeepAgain{1};

}  // namespace

void Shard::set_view(const ShardView& view, const Views& views, Clock::time_point now) {
  if (view.epoch < epoch_) return;
  const ServerInfo *const first = find_server(views, view.primary), *const second =
                                                                        find_server(views, view.backup);
  primary_protocol_ = first ? first->protocol : kOldestProtocol;
  backup_.protocol = second ? second->protocol : kOldestProtocol;
  if (view.epoch == epoch_) return keep_role(view, views, now);
  epoch_ = view.epoch;
  primary_ = view.primary;
  refused_.clear();
  const bool primary = view.primary == owner_.incarnation();
  backup_ = {view.backup != 0, second ? second->address : "", view.handover, backup_.protocol};
  if (primary && view.fresh) {
    stop_serving();  // a former state of this process is dropped, since the scheduler has given it up
    receiver_ = nullptr;
    begin(
        std::make_unique<ServerCore>(core_options(owner_, number_), new_incarnation(), owner_.memory_used()),
        view, now);
  } else if (primary && receiver_ && receiver_->is_complete()) {
    take_over(view, now);
  } else if (primary && core_) {
    sender_->set_backup(copy_of(view), backup_, now);
  } else {
    std::unique_ptr<ServerCore> former = stop_serving();
    if (!view.handover) former = nullptr;
    set_receiver(view, std::move(former));
    if (primary)
      owner_.log(ServerEvent::Level::error, "state_missing",
                 {{"shard", std::to_string(number_)}, {"epoch", std::to_string(epoch_)}});
  }
  keep_role(view, views, now);
}

// Takes from a view what may change within an epoch: the learner, and the protocol versions of servers, which
// a restarted scheduler may not have known at first.
void Shard::keep_role(const ShardView& view, const Views& views, Clock::time_point now) {
  if (!sender_) return set_receiver(view, nullptr);
  const ServerInfo* const learner = find_server(views, view.learner);
  const std::uint16_t protocol = learner ? learner->protocol : kOldestProtocol;
  sender_->set_protocols(backup_.protocol, protocol);
  sender_->set_learner(learner ? view.learner_copy : 0,
                       {true, learner ? learner->address : "", false, protocol, true}, now);
}

// Sets receiver_ if the view makes this server the backup or learner, else resets it. A learner that becomes
// the backup keeps its copy. `former`: see ReplicaReceiver.
void Shard::set_receiver(const ShardView& view, std::unique_ptr<ServerCore> former) {
  const std::uint64_t me = owner_.incarnation();
  const std::uint64_t copy = view.backup == me ? copy_of(view) : view.learner == me ? view.learner_copy : 0;
  if (receiver_ && receiver_->copy() == copy) return;
  receiver_ = nullptr;
  if (copy != 0) receiver_ = std::make_unique<ReplicaReceiver>(owner_, number_, copy, std::move(former));
}

// Makes this server the shard's primary. If the shard begins anew (ShardView::fresh), it begins with the
// newest snapshot, if there is one.
void Shard::begin(std::unique_ptr<ServerCore> core, const ShardView& view, Clock::time_point now) {
  core_ = std::move(core);
  keep_snapshots(view.fresh);
  sender_ = std::make_unique<ReplicaSender>(owner_, *core_, number_, new_incarnation());
  sender_->set_backup(copy_of(view), backup_, now);
  owner_.log(
      ServerEvent::Level::info, "primary",
      {{"shard", std::to_string(number_)}, {"epoch", std::to_string(epoch_)}, {"backup", backup_.address}});
}

void Shard::keep_snapshots(bool restores) {
  if (owner_.options().snapshots.empty()) return;
  next_keep_ = Clock::now() + kKeepAgain;
  if (restores) end_retired();
  if (retired_) return;  // retired_ has the lock of the folder; tick() tries again later
  const auto log = [this](ServerEvent::Level level, const char* name, auto fields) {
    owner_.log(level, name, std::move(fields));
  };
  try {
    snapshots_ =
        std::make_unique<Snapshots>(core_options(owner_, number_), owner_.incarnation(), *core_, log);
  } catch (const Error& error) {  // not fatal unless a snapshot has to be restored: the core has all state
    if (restores) throw;
    if (std::exchange(keep_failed_, true)) return;
    return log(ServerEvent::Level::error, "snapshot_failed", Snapshots::Fields{{"why", error.what()}});
  }
  keep_failed_ = false;
  restores ? snapshots_->restore(new_incarnation()) : snapshots_->adopt();
}

// Finishes the snapshot that this server began as a former primary. If that fails, an event is logged.
// Blocks.
void Shard::end_retired() {
  if (retired_) retired_->finish_writing();
  retired_ = nullptr;
}

void Shard::finish_snapshot() {
  end_retired();
  if (snapshots_) snapshots_->finish();
}

// Adds this shard's snapshots to the statistics of all shards, which have the largest age and time of any
// shard.
void Shard::add_snapshots_to(SnapshotStats& stats, Clock::time_point now) const {
  stats.kept = stats.kept || keep_failed_;
  stats.failed += keep_failed_ ? 1 : 0;
  if (!snapshots_) return;
  const SnapshotStats mine = snapshots_->stats(now);
  stats.kept = true;
  stats.written += mine.written;
  stats.failed += mine.failed;
  stats.age = std::max(stats.age, mine.age);
  stats.bytes += mine.bytes;
  stats.seconds = std::max(stats.seconds, mine.seconds);
}

void Shard::take_over(const ShardView& view, Clock::time_point now) {
  serves_from_ = receiver_->end_of_lease();
  std::unique_ptr<ServerCore> core = receiver_->take_core();
  receiver_ = nullptr;
  core->promote(std::max(now, serves_from_));
  core->record_changes(false);
  begin(std::move(core), view, now);
}

// Ends this server's role as the primary, if it has that. Returns the core with the state, null if there is
// none.
std::unique_ptr<ServerCore> Shard::stop_serving() {
  if (!core_) return nullptr;
  for (const Peer peer : core_->peers()) {
    core_->disconnected(peer, "the server is no longer the primary", {});
    owner_.close(peer);
  }
  core_->take_outbox();
  sender_ = nullptr;
  if (snapshots_) {
    end_retired();
    snapshots_->leave_core();
    retired_ = std::move(snapshots_);
  }
  owner_.log(ServerEvent::Level::info, "primary_elsewhere",
             {{"shard", std::to_string(number_)}, {"epoch", std::to_string(epoch_)}});
  return std::move(core_);
}

std::string Shard::reason_not_to_serve(Clock::time_point now) const {
  if (!core_) return "this server is not the primary of shard " + std::to_string(number_);
  if (now < serves_from_)
    return "this server has just become the primary of shard " + std::to_string(number_);
  return {};
}

std::string Shard::reason_not_complete(bool copied) const {
  const std::string me = "shard " + std::to_string(number_);
  if (copied && !backup_.exists) return me + " has no backup";
  const bool copying = (core_ && backup_.exists && (!is_synced() || sender_->has_learner())) ||
                       (receiver_ && !receiver_->is_complete());
  return copying ? "the copy of " + me + " is not complete" : "";
}

bool Shard::has_more() const {
  return (snapshots_ && snapshots_->has_more()) || (sender_ && sender_->has_more());
}

void Shard::go_on(Clock::time_point now) {
  if (snapshots_ && snapshots_->has_more()) snapshots_->go_on();
  if (sender_ && sender_->has_more()) sender_->go_on(now);
}

void Shard::tick(Clock::time_point now) {
  if (retired_ && !retired_->go_on()) retired_ = nullptr;
  if (core_ && !snapshots_ && now >= next_keep_) keep_snapshots(false);
  if (sender_) sender_->tick(now);
  if (!core_ || now < serves_from_) return;
  core_->tick(now);
  if (snapshots_) snapshots_->tick(now);
  say(now);
}

void Shard::say(Clock::time_point now) {
  Outbox outbox = core_->take_outbox();
  std::vector<Peer> deaf;
  for (const Outgoing& one : outbox.replies) {
    if (owner_.transport().queued(one.peer) > core_->most_unread()) deaf.push_back(one.peer);
  }
  sender_->take(outbox, now);
  for (const Peer peer : outbox.closed) owner_.close(peer);
  for (const Peer peer : deaf) {
    core_->disconnected(peer, "it does not read its replies", now);
    owner_.close(peer);
  }
  for (ServerEvent& event : outbox.events) {
    event.fields.emplace_back("shard", std::to_string(number_));
    owner_.log(event.level, event.name.c_str(), std::move(event.fields));
  }
}

// Why this hello is not that of the primary of this epoch; empty: it is. A hello of version 1 has no proof of
// it, and is accepted if the primary speaks no newer version.
std::string Shard::objection(const ReplicaMessage& hello) const {
  const Versions mine = versions_up_to(owner_.options().protocol);
  if (!mine.has(hello.version))
    return no_common_version("it", {hello.version, hello.version}, "this server", mine);
  if (hello.version < kProven)
    return std::min(mine.newest, primary_protocol_) < kProven ? ""
                                                              : "it does not prove that it is the primary";
  if (hello.primary != primary_) return "it is not the primary that the scheduler has named";
  return hello.secret == owner_.secret() ? "" : "it does not know what the scheduler has told the servers";
}

void Shard::primary_greeted(Peer peer, const ReplicaMessage& hello) {
  if (receiver_ && hello.epoch == receiver_->copy()) {
    const std::string why = objection(hello);
    if (why.empty()) return receiver_->greeted(peer, hello);
    if (std::exchange(refused_, why) != why)
      owner_.log(ServerEvent::Level::warning, "primary_refused",
                 {{"shard", std::to_string(number_)}, {"why", why}});
  }
  const ReplicaMessage refused{.kind = ReplicaKind::refused, .shard = number_, .epoch = epoch_};
  owner_.transport().send(peer, {encode(refused)});
}

void Shard::connected(Peer peer) {
  if (sender_ && sender_->owns(peer)) sender_->connected(peer);
}

void Shard::disconnected(Peer peer, const std::string& why, Clock::time_point now) {
  if (sender_ && sender_->owns(peer)) sender_->disconnected(peer, why, now);
  if (receiver_ && receiver_->peer() == peer) receiver_->disconnected();
}

std::span<std::byte> Shard::memory_for(Peer peer, const ReplicaMessage& message, std::size_t bytes) {
  if (receiver_ && receiver_->peer() == peer) return receiver_->memory_for(message, bytes);
  return {};
}

void Shard::received(Peer peer, const ReplicaMessage& message, std::span<const std::byte> payload,
                     Clock::time_point now) {
  if (receiver_ && receiver_->peer() == peer) return receiver_->received(message, payload, now);
  if (sender_ && sender_->owns(peer)) sender_->received(peer, message, now);
}

}  // namespace heddle::kv_detail
