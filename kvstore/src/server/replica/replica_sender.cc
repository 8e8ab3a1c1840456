#include "server/replica/replica_sender.h"

#include <utility>

namespace heddle::kv_detail {

void ReplicaSender::set_backup(std::uint64_t copy, const Backup& backup, Clock::time_point now) {
  if (learner_ && backup.exists && learner_->copy() == copy) {
    backup_ = std::move(learner_);
    backup_->becomes_backup();
  } else {
    learner_ = nullptr;
    backup_ = std::make_unique<ReplicaLink>(owner_, core_, shard_, log_, copy, backup, now);
    backup_->tick(now);
  }
  release_answers(now);
}

void ReplicaSender::set_learner(std::uint64_t copy, const Backup& learner, Clock::time_point now) {
  if (learner_ && learner_->copy() == copy) return;
  learner_ = nullptr;
  if (copy != 0) {
    learner_ = std::make_unique<ReplicaLink>(owner_, core_, shard_, log_, copy, learner, now);
    learner_->tick(now);
  }
  release_answers(now);
}

void ReplicaSender::set_protocols(std::uint16_t backup, std::uint16_t learner) {
  if (backup_) backup_->set_protocol(backup);
  if (learner_) learner_->set_protocol(learner);
}

ReplicaLink* ReplicaSender::link_of(Peer peer) const {
  if (peer == 0) return nullptr;
  if (backup_ && backup_->peer() == peer) return backup_.get();
  return learner_ && learner_->peer() == peer ? learner_.get() : nullptr;
}

// To be called whenever a link may have changed. Tells the core to record changes if a link needs the
// records. Sends workers the answers that no longer wait for a link.
void ReplicaSender::release_answers(Clock::time_point now) {
  core_.record_changes((backup_ && backup_->is_begun()) || (learner_ && learner_->is_begun()));
  while (!held_.empty()) {
    const std::uint64_t after = held_.front().after;
    if (backup_ && !backup_->may_tell(after, now)) return;
    if (learner_ && !learner_->may_tell(after, now)) return;
    owner_.transport().send(held_.front().peer, std::move(held_.front().message));
    owner_.latencies().sent(held_.front().times);
    held_.pop_front();
  }
}

void ReplicaSender::tick(Clock::time_point now) {
  if (backup_) backup_->tick(now);
  if (learner_) learner_->tick(now);
  release_answers(now);
}

void ReplicaSender::connected(Peer peer) {
  if (ReplicaLink* const link = link_of(peer)) link->connected();
}

void ReplicaSender::disconnected(Peer peer, const std::string& why, Clock::time_point now) {
  ReplicaLink* const link = link_of(peer);
  if (!link) return;
  link->disconnected(why, now);
  release_answers(now);
}

void ReplicaSender::received(Peer peer, const ReplicaMessage& message, Clock::time_point now) {
  ReplicaLink* const link = link_of(peer);
  if (!link) return;
  link->received(message, now);
  release_answers(now);
}

bool ReplicaSender::has_more() const {
  return (backup_ && backup_->has_more()) || (learner_ && learner_->has_more());
}

void ReplicaSender::go_on(Clock::time_point now) {
  if (backup_ && backup_->has_more()) backup_->go_on(now);
  if (learner_ && learner_->has_more()) learner_->go_on(now);
  release_answers(now);
}

std::uint64_t ReplicaSender::log_bytes() const {
  return (backup_ ? backup_->log_bytes() : 0) + (learner_ ? learner_->log_bytes() : 0);
}

void ReplicaSender::take(Outbox& outbox, Clock::time_point now) {
  for (const Change& change : outbox.changes) {
    ++log_.last;
    if (backup_ && backup_->is_begun()) backup_->add(change, log_.last);
    if (learner_ && learner_->is_begun()) learner_->add(change, log_.last);
  }
  for (auto& [peer, head] : outbox.greetings) held_.push_back({log_.last, peer, {std::move(head)}});
  for (Outgoing& one : outbox.replies) {
    if (one.peer == 0) continue;
    held_.push_back({log_.last,
                     one.peer,
                     {encode(one.reply), std::move(one.payload), one.priority},
                     {one.request, one.arrived, owner_.latencies().arrival(now)}});
  }
  release_answers(now);
}

}  // namespace heddle::kv_detail
