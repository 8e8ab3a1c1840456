// A primary's links to its backup, and to a learner, which gets a copy while the backup keeps its own.
// Answers to workers are held until each complete copy has the changes that they depend on.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "server/replica/replica_link.h"

namespace heddle::kv_detail {

class ReplicaSender {
 public:
  using Backup = ReplicaLink::Target;
  // `log`: random number of this primary's log of records.
  ReplicaSender(ShardOwner& owner, ServerCore& core, std::uint32_t shard, std::uint64_t log)
      : owner_(owner), core_(core), shard_(shard), log_{.number = log} {}
  ReplicaSender(const ReplicaSender&) = delete;
  ReplicaSender& operator=(const ReplicaSender&) = delete;

  // `copy`: number of the copy, see ShardView. If the learner has this copy, the learner becomes the backup;
  // otherwise the backup gets a new copy.
  void set_backup(std::uint64_t copy, const Backup& backup, Clock::time_point now);
  // `copy`: number of the learner's copy; 0: there is no learner. With the number of the present learner's
  // copy the call does nothing.
  void set_learner(std::uint64_t copy, const Backup& learner, Clock::time_point now);
  // Sets the newest versions that backup and learner speak, for the next connections.
  void set_protocols(std::uint16_t backup, std::uint16_t learner);
  // Takes the core's changes and its answers to workers from the outbox. Sends the answers as soon as it may.
  void take(Outbox& outbox, Clock::time_point now);
  void tick(Clock::time_point now);

  // connected(), disconnected() and received() handle events of the connections to backup and learner.
  // owns(): whether the peer is one of these two.
  bool owns(Peer peer) const { return link_of(peer) != nullptr; }
  void connected(Peer peer);
  void disconnected(Peer peer, const std::string& why, Clock::time_point now);
  void received(Peer peer, const ReplicaMessage& message, Clock::time_point now);

  // Sends the next pieces of the state to backup and learner. To be called if has_more().
  void go_on(Clock::time_point now);
  bool has_more() const;
  bool is_synced() const { return backup_ && backup_->is_synced(); }  // whether the backup has all state
  bool has_learner() const { return learner_ != nullptr; }
  std::uint64_t log_bytes() const;
  // True if answers to workers wait for backup or learner, and these are connected. False if one of them is
  // gone, which the scheduler has to notice.
  bool holds_answers() const {
    return !held_.empty() && (!backup_ || backup_->is_connected()) && (!learner_ || learner_->is_connected());
  }

 private:
  struct Held {
    std::uint64_t after;  // number of the last record that all copies must have before the message is sent
    Peer peer;
    Message message;
    RequestTimes times{};
  };
  ReplicaLink* link_of(Peer peer) const;
  void release_answers(Clock::time_point now);

  ShardOwner& owner_;
  ServerCore& core_;
  const std::uint32_t shard_;
  ReplicaLog log_;
  std::unique_ptr<ReplicaLink> backup_{}, learner_{};
  std::deque<Held> held_{};
};

}  // namespace heddle::kv_detail
