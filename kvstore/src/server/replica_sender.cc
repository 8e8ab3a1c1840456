#include "server/replica_sender.h"

#include <algorithm>
#include <utility>

namespace heddle::kv_detail {
namespace {

constexpr std::chrono::milliseconds kRetry{20}, kLongestRetry{1000};
// A connection on which the backup has answered nothing for so long, and on which nothing went out either, is half-open.
constexpr std::chrono::milliseconds kMostSilent{2000};
// Of records that a backup without the whole state has not confirmed: beyond that workers wait.
constexpr std::uint64_t kMostUnconfirmed = 64 << 20;
// Bytes for the backup that wait to be sent: beyond that it gets no more of a state.
constexpr std::size_t kMostQueued = 16 << 20;

std::uint64_t nanoseconds(Clock::time_point time) {
  return static_cast<std::uint64_t>(time.time_since_epoch().count());
}

Clock::time_point time_of(std::uint64_t nanoseconds) {
  return Clock::time_point(Clock::duration(static_cast<Clock::rep>(nanoseconds)));
}

}  // namespace

void ReplicaSender::set_stage(Stage stage) {
  stage_ = stage;
  saver_ = nullptr;
  core_.record_changes(stage != Stage::idle);
  if (stage != Stage::idle) return;
  entries_.clear();
  count(-static_cast<std::int64_t>(entry_bytes_));
  acknowledged_ = last_;
}

std::uint64_t ReplicaSender::bytes_of(const Entry& entry) {
  return sizeof(Entry) + entry.change.record.size() + entry.change.payload.bytes.size();
}

// They count for the limit of the process until the backup has them.
void ReplicaSender::count(std::int64_t bytes) {
  entry_bytes_ += static_cast<std::uint64_t>(bytes);
  *owner_.memory_used() += static_cast<std::uint64_t>(bytes);
}

void ReplicaSender::disconnect() {
  if (peer_ != 0) owner_.close(std::exchange(peer_, 0));
  greeted_ = false;
}

void ReplicaSender::set_backup(std::uint64_t epoch, const Backup& backup, Clock::time_point now) {
  disconnect();
  epoch_ = epoch;
  backup_ = backup;
  lost_ = false;
  next_try_ = now;
  retry_ = kRetry;
  set_stage(Stage::idle);
  release(now);
  tick(now);
}

void ReplicaSender::send(const ReplicaMessage& message, Payload payload) {
  ReplicaMessage mine = message;
  mine.shard = shard_;
  mine.epoch = epoch_;
  mine.log = log_;
  owner_.transport().send(peer_, {encode(mine), std::move(payload)});
}

void ReplicaSender::tick(Clock::time_point now) {
  if (peer_ != 0) look_for_silence(now);
  last_tick_ = now;
  if (!backup_.address.empty() && peer_ == 0 && now >= next_try_) {
    peer_ = owner_.connect_to_backup(shard_, backup_.address);
    heard_ = now;
    queued_ = 0;
  }
  if (greeted_ && now >= next_beat_) beat(now);
  if (saver_) go_on(now);
  release(now);
}

// The backup does not answer while a large state is on its way, nor does it hear anything while this process is stopped.
void ReplicaSender::look_for_silence(Clock::time_point now) {
  const std::size_t queued = owner_.transport().queued(peer_);
  if (queued < std::exchange(queued_, queued) || now - last_tick_ > kMostSilent / 2) heard_ = now;
  if (now - heard_ < kMostSilent) return;
  owner_.close(peer_);
  disconnected("it is silent", now);
}

void ReplicaSender::beat(Clock::time_point now) {
  next_beat_ = now + kBeat;
  send({.kind = ReplicaKind::beat, .number = nanoseconds(now)});
}

void ReplicaSender::connected(Clock::time_point) {
  version_ = std::min(versions_up_to(owner_.options().protocol).newest, backup_.protocol);
  send({.kind = ReplicaKind::hello,
        .version = version_,
        .primary = owner_.incarnation(),
        .secret = owner_.secret()});
}

void ReplicaSender::disconnected(const std::string& why, Clock::time_point now) {
  peer_ = 0;
  next_try_ = now + retry_;
  retry_ = std::min(2 * retry_, kLongestRetry);
  if (stage_ == Stage::sending) set_stage(Stage::idle);
  if (!std::exchange(greeted_, false)) return;
  owner_.log(ServerEvent::Level::warning, "backup_lost",
             {{"shard", std::to_string(shard_)}, {"backup", backup_.address}, {"why", why}});
}

void ReplicaSender::received(const ReplicaMessage& message, Clock::time_point now) {
  heard_ = now;
  switch (message.kind) {
    case ReplicaKind::welcome:
      return welcomed(message, now);
    case ReplicaKind::refused:
      disconnect();
      if (stage_ == Stage::sending) set_stage(Stage::idle);
      next_try_ = now + kRetry;
      return;
    case ReplicaKind::applied:
      return acknowledged(message.number, now);
    case ReplicaKind::beat:
      lease_end_ = std::min(time_of(message.number), now) + kLease;
      return release(now);
    default:
      throw MalformedMessage("a message that no backup sends");
  }
}

void ReplicaSender::welcomed(const ReplicaMessage& message, Clock::time_point now) {
  if (greeted_) throw MalformedMessage("a second welcome");
  greeted_ = true;
  beat(now);
  const bool has_state = message.log == log_ && stage_ != Stage::idle && message.number <= last_ &&
                         message.number >= acknowledged_;
  if (has_state) {
    for (const Entry& entry : entries_) {
      if (entry.number > message.number) send_entry(entry);
    }
    return acknowledged(message.number, now);
  }
  stage_ == Stage::synced ? report_lost() : send_state(now);
}

// The scheduler would make such a backup the primary: it has to know of it, and begins the copy anew in another epoch.
void ReplicaSender::report_lost() {
  if (!std::exchange(lost_, true)) {
    owner_.log(ServerEvent::Level::error, "backup_state_lost",
               {{"shard", std::to_string(shard_)}, {"backup", backup_.address}});
    owner_.backup_lost(shard_, epoch_);
  }
  throw MalformedMessage("the backup has lost the state that it had confirmed");
}

// The state of this moment goes in pieces; records of what changes meanwhile go behind it.
void ReplicaSender::send_state(Clock::time_point now) {
  set_stage(Stage::idle);
  set_stage(Stage::sending);
  send({.kind = ReplicaKind::state_begin});
  begun_at_ = last_;
  saver_ = std::make_unique<StateSaver>(core_, version_ < kProven ? kOldestStateVersion : kStateVersion);
  go_on(now);
}

void ReplicaSender::go_on(Clock::time_point now) {
  if (owner_.transport().queued(peer_) > kMostQueued) return;
  const auto sink = [this](const std::vector<std::byte>& head, Payload payload) {
    send({.kind = ReplicaKind::state, .inner = head}, std::move(payload));
  };
  try {
    if (!saver_->go_on(static_cast<std::size_t>(owner_.options().keys_at_once), sink)) return;
  } catch (const std::bad_alloc&) {
    owner_.close(peer_);
    return disconnected("there is no memory for a copy of the optimizer's state of rows", now);
  }
  saver_ = nullptr;
  send({.kind = ReplicaKind::state_end, .number = begun_at_});
  for (const Entry& entry : entries_) send_entry(entry);
}

void ReplicaSender::send_entry(const Entry& entry) {
  send({.kind = ReplicaKind::record, .number = entry.number, .inner = entry.change.record},
       entry.change.payload);
}

void ReplicaSender::acknowledged(std::uint64_t number, Clock::time_point now) {
  if (number > last_ || number < acknowledged_)
    throw MalformedMessage("the backup confirms record " + std::to_string(number) + " of " +
                           std::to_string(last_));
  if (saver_) throw MalformedMessage("the backup confirms a state before it has come");
  acknowledged_ = number;
  while (!entries_.empty() && entries_.front().number <= number) {
    count(-static_cast<std::int64_t>(bytes_of(entries_.front())));
    entries_.pop_front();
  }
  if (stage_ == Stage::sending) {
    stage_ = Stage::closing;
    cut_ = last_;
    beat(now);
  }
  if (stage_ == Stage::closing && number >= cut_) {
    stage_ = Stage::synced;
    retry_ = kRetry;
    owner_.synced(shard_, epoch_);
  }
  release(now);
}

void ReplicaSender::take(Outbox& outbox, Clock::time_point now) {
  for (Change& change : outbox.changes) {
    entries_.push_back({++last_, std::move(change)});
    count(static_cast<std::int64_t>(bytes_of(entries_.back())));
    if (greeted_ && !saver_) send_entry(entries_.back());
  }
  for (auto& [peer, head] : outbox.greetings) held_.push_back({last_, peer, {std::move(head)}});
  for (Outgoing& one : outbox.replies) {
    if (one.peer == 0) continue;
    held_.push_back({last_, one.peer, {encode(one.reply), std::move(one.payload), one.priority}});
  }
  release(now);
}

bool ReplicaSender::may_tell(std::uint64_t after, Clock::time_point now) const {
  if (!backup_.exists) return true;
  if (stage_ == Stage::closing || stage_ == Stage::synced) return after <= acknowledged_ && now < lease_end_;
  if (backup_.patient) return false;
  return after <= acknowledged_ || entry_bytes_ < kMostUnconfirmed;
}

void ReplicaSender::release(Clock::time_point now) {
  while (!held_.empty() && may_tell(held_.front().after, now)) {
    owner_.transport().send(held_.front().peer, std::move(held_.front().message));
    held_.pop_front();
  }
}

}  // namespace heddle::kv_detail
