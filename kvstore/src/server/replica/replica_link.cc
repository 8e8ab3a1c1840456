#include "server/replica/replica_link.h"

#include <algorithm>
#include <utility>

namespace heddle::kv_detail {
namespace {

constexpr std::chrono::milliseconds kRetry{20}, kLongestRetry{1000};
// A connection counts as half-open if for this time nothing comes from the backup, and nothing can be sent.
constexpr std::chrono::milliseconds kMostSilent{2000};
// Time until the loss of a connection is logged. A backup that is no longer needed may hear so from the
// scheduler, and close the connection, this much earlier than the primary hears it. Such a loss must not be
// logged.
constexpr std::chrono::milliseconds kFarewell{1000};
// Most unconfirmed bytes of records while the backup gets the state. Beyond this limit, answers to workers
// wait.
constexpr std::uint64_t kMostUnconfirmed = 64 << 20;
// Most bytes that may wait to be sent to the backup. Beyond this limit, the next piece of a state is not sent
// yet.
constexpr std::size_t kMostQueued = 16 << 20;

std::uint64_t nanoseconds(Clock::time_point time) {
  return static_cast<std::uint64_t>(time.time_since_epoch().count());
}

Clock::time_point time_of(std::uint64_t nanoseconds) {
  return Clock::time_point(Clock::duration(static_cast<Clock::rep>(nanoseconds)));
}

}  // namespace

ReplicaLink::ReplicaLink(ShardOwner& owner, ServerCore& core, std::uint32_t shard, const ReplicaLog& log,
                         std::uint64_t copy, Target target, Clock::time_point now)
    : owner_(owner),
      core_(core),
      shard_(shard),
      log_(log),
      copy_(copy),
      target_(std::move(target)),
      retry_(kRetry),
      next_try_(now),
      acknowledged_(log.last) {}

ReplicaLink::~ReplicaLink() {
  disconnect();
  count(-static_cast<std::int64_t>(entry_bytes_));
}

void ReplicaLink::set_stage(Stage stage) {
  stage_ = stage;
  saver_ = nullptr;
  if (stage != Stage::idle) return;
  entries_.clear();
  count(-static_cast<std::int64_t>(entry_bytes_));
  acknowledged_ = log_.last;
}

std::uint64_t ReplicaLink::bytes_of(const Entry& entry) {
  return sizeof(Entry) + entry.change.record.size() + entry.change.payload.bytes.size();
}

// Adds to, or subtracts from, the bytes of unconfirmed records. They count as memory that the process uses.
void ReplicaLink::count(std::int64_t bytes) {
  entry_bytes_ += static_cast<std::uint64_t>(bytes);
  *owner_.memory_used() += static_cast<std::uint64_t>(bytes);
}

void ReplicaLink::disconnect() {
  if (peer_ != 0) owner_.close(std::exchange(peer_, 0));
  greeted_ = false;
}

void ReplicaLink::send(const ReplicaMessage& message, Payload payload) {
  ReplicaMessage mine = message;
  mine.shard = shard_;
  mine.epoch = copy_;
  mine.log = log_.number;
  owner_.transport().send(peer_, {encode(mine), std::move(payload)});
}

void ReplicaLink::tick(Clock::time_point now) {
  if (peer_ != 0) look_for_silence(now);
  last_tick_ = now;
  if (!target_.address.empty() && peer_ == 0 && now >= next_try_) {
    peer_ = owner_.connect_to_backup(shard_, target_.address);
    heard_ = now;
    queued_ = 0;
  }
  if (loss_ && now >= loss_->due) log_loss();
  if (greeted_ && now >= next_beat_) beat(now);
  if (saver_) go_on(now);
}

// Closes the connection if the target is silent. While a large state is on its way, the target may not
// answer, but bytes are sent. If this process was stopped, it has not heard the target meanwhile, which does
// not count.
void ReplicaLink::look_for_silence(Clock::time_point now) {
  const std::size_t queued = owner_.transport().queued(peer_);
  if (queued < std::exchange(queued_, queued) || now - last_tick_ > kMostSilent / 2) heard_ = now;
  if (now - heard_ < kMostSilent) return;
  owner_.close(peer_);
  disconnected("it is silent", now);
}

void ReplicaLink::beat(Clock::time_point now) {
  next_beat_ = now + kBeat;
  send({.kind = ReplicaKind::beat, .number = nanoseconds(now)});
}

void ReplicaLink::connected() {
  version_ = std::min(versions_up_to(owner_.options().protocol).newest, target_.protocol);
  send({.kind = ReplicaKind::hello,
        .version = version_,
        .primary = owner_.incarnation(),
        .secret = owner_.secret()});
}

void ReplicaLink::disconnected(const std::string& why, Clock::time_point now) {
  peer_ = 0;
  next_try_ = now + retry_;
  retry_ = std::min(2 * retry_, kLongestRetry);
  if (stage_ == Stage::sending) set_stage(Stage::idle);
  // A learner that is gone is reported as lost, since workers would wait until it is back. The scheduler may
  // choose another learner.
  if (target_.learner && stage_ != Stage::idle) report_lost();
  if (std::exchange(greeted_, false)) loss_ = {why, now + kFarewell};
}

void ReplicaLink::log_loss() {
  const std::string why = std::exchange(loss_, std::nullopt)->why;
  // Without a job no state is lost, so this is no warning. Servers that end one after the other log no
  // warnings.
  owner_.log(core_.has_jobs() ? ServerEvent::Level::warning : ServerEvent::Level::info, "backup_lost",
             {{"shard", std::to_string(shard_)}, {"backup", target_.address}, {"why", why}});
}

void ReplicaLink::received(const ReplicaMessage& message, Clock::time_point now) {
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
      return;
    default:
      throw MalformedMessage("a message that no backup sends");
  }
}

void ReplicaLink::welcomed(const ReplicaMessage& message, Clock::time_point now) {
  if (greeted_) throw MalformedMessage("a second welcome");
  greeted_ = true;
  if (loss_) log_loss();
  beat(now);
  const bool has_state = message.log == log_.number && stage_ != Stage::idle && message.number <= log_.last &&
                         message.number >= acknowledged_;
  if (has_state) {
    for (const Entry& entry : entries_) {
      if (entry.number > message.number) send_entry(entry);
    }
    return acknowledged(message.number, now);
  }
  if (stage_ != Stage::synced) return send_state(now);
  report_lost();
  throw MalformedMessage("the backup has lost the state that it had confirmed");
}

// Reports to the scheduler that the target has lost its copy. Otherwise the scheduler could make this backup
// the primary. The scheduler begins the copy anew, in another epoch.
void ReplicaLink::report_lost() {
  if (std::exchange(lost_, true)) return;
  if (!target_.learner)
    owner_.log(ServerEvent::Level::error, "backup_state_lost",
               {{"shard", std::to_string(shard_)}, {"backup", target_.address}});
  owner_.backup_lost(shard_, copy_);
}

// Begins to send the present state in pieces. The records of later changes are sent after it.
void ReplicaLink::send_state(Clock::time_point now) {
  set_stage(Stage::idle);
  set_stage(Stage::sending);
  send({.kind = ReplicaKind::state_begin});
  begun_at_ = log_.last;
  const std::uint16_t state = version_ < kProven    ? kOldestStateVersion
                              : version_ < kResumes ? 2
                                                    : kStateVersion;
  saver_ = std::make_unique<StateSaver>(core_, state);
  go_on(now);
}

void ReplicaLink::go_on(Clock::time_point now) {
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

void ReplicaLink::send_entry(const Entry& entry) {
  send({.kind = ReplicaKind::record, .number = entry.number, .inner = entry.change.record},
       entry.change.payload);
}

void ReplicaLink::acknowledged(std::uint64_t number, Clock::time_point now) {
  if (number > log_.last || number < acknowledged_)
    throw MalformedMessage("the backup confirms record " + std::to_string(number) + " of " +
                           std::to_string(log_.last));
  if (saver_) throw MalformedMessage("the backup confirms a state before it has come");
  acknowledged_ = number;
  while (!entries_.empty() && entries_.front().number <= number) {
    count(-static_cast<std::int64_t>(bytes_of(entries_.front())));
    entries_.pop_front();
  }
  if (stage_ == Stage::sending) {
    stage_ = Stage::closing;
    cut_ = log_.last;
    beat(now);
  }
  if (stage_ == Stage::closing && number >= cut_) {
    stage_ = Stage::synced;
    retry_ = kRetry;
    owner_.synced(shard_, copy_);
  }
}

void ReplicaLink::add(const Change& change, std::uint64_t number) {
  entries_.push_back({number, change});
  count(static_cast<std::int64_t>(bytes_of(entries_.back())));
  if (greeted_ && !saver_) send_entry(entries_.back());
}

bool ReplicaLink::may_tell(std::uint64_t after, Clock::time_point now) const {
  if (!target_.exists) return true;
  if (stage_ == Stage::closing || stage_ == Stage::synced) return after <= acknowledged_ && now < lease_end_;
  if (target_.patient) return false;
  return after <= acknowledged_ || entry_bytes_ < kMostUnconfirmed;
}

}  // namespace heddle::kv_detail
