// A primary's copies: that of its backup, and that of a learner, which gets one while the backup still has its own. It holds what
// workers are told until each that is complete has what they are told of.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "server/replica_link.h"

namespace heddle::kv_detail {

class ReplicaSender {
 public:
  using Backup = ReplicaLink::Target;
  // `log`: a random number, of this primary's records.
  ReplicaSender(ShardOwner& owner, ServerCore& core, std::uint32_t shard, std::uint64_t log)
      : owner_(owner), core_(core), shard_(shard), log_{.number = log} {}
  ReplicaSender(const ReplicaSender&) = delete;
  ReplicaSender& operator=(const ReplicaSender&) = delete;

  // `copy`: see ShardView. If that of the learner has this number, it becomes the backup as it is; else the copy begins anew.
  void set_backup(std::uint64_t copy, const Backup& backup, Clock::time_point now);
  // The same number again changes nothing; 0: there is no learner.
  void set_learner(std::uint64_t copy, const Backup& learner, Clock::time_point now);
  void set_protocols(std::uint16_t backup, std::uint16_t learner);  // from the next connection on
  // Takes what the core wants to say.
  void take(Outbox& outbox, Clock::time_point now);
  void tick(Clock::time_point now);

  // The state of a connection to one of the copies.
  bool owns(Peer peer) const { return link_of(peer) != nullptr; }
  void connected(Peer peer);
  void disconnected(Peer peer, const std::string& why, Clock::time_point now);
  void received(Peer peer, const ReplicaMessage& message, Clock::time_point now);

  // Goes on, for a moment, with states that are being sent; has_more(): there is one.
  void go_on(Clock::time_point now);
  bool has_more() const;
  bool is_synced() const { return backup_ && backup_->is_synced(); }  // the backup
  bool has_learner() const { return learner_ != nullptr; }
  std::uint64_t log_bytes() const;
  // Answers to workers wait for a copy that is being made: not for one that is gone, of which the scheduler has to hear.
  bool holds_answers() const {
    return !held_.empty() && (!backup_ || backup_->is_connected()) && (!learner_ || learner_->is_connected());
  }

 private:
  struct Held {
    std::uint64_t after;  // the record that all copies have to have
    Peer peer;
    Message message;
  };
  ReplicaLink* link_of(Peer peer) const;
  void settle(Clock::time_point now);

  ShardOwner& owner_;
  ServerCore& core_;
  const std::uint32_t shard_;
  ReplicaLog log_;
  std::unique_ptr<ReplicaLink> backup_{}, learner_{};
  std::deque<Held> held_{};
};

}  // namespace heddle::kv_detail
