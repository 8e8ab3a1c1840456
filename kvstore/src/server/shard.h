// One part of the keys on this server: as its primary, which workers talk to, as its backup, or neither. Which it is follows
// from the views that the scheduler makes. A view has a number, the epoch.
//
// No answer of a primary is lost with it, and no two primaries answer at one time (Oki and Liskov, "Viewstamped replication",
// PODC 1988; leases: Gray and Cheriton, SOSP 1989):
// - A primary that has a backup tells workers nothing before its backup has it, too.
// - The scheduler makes a backup the primary only if the primary has said that it has all.
// - A primary answers for 250 ms after its backup has last confirmed it. A backup takes its place after that time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "server/replica_receiver.h"
#include "server/replica_sender.h"
#include "server/snapshots.h"
#include "wire/views.h"

namespace heddle::kv_detail {

class Shard {
 public:
  Shard(ShardOwner& owner, std::uint32_t number) : owner_(owner), number_(number) {}

  // The newest view; `views` has it, and says where the servers are and what they speak.
  void set_view(const ShardView& view, const Views& views, Clock::time_point now);
  void tick(Clock::time_point now);
  // Goes on, for a moment, with state that is being collected for a snapshot or a new backup; has_more(): there is some.
  void go_on(Clock::time_point now);
  bool has_more() const;
  bool holds_answers() const { return sender_ && sender_->holds_answers(); }

  std::uint64_t epoch() const { return epoch_; }
  bool is_primary() const { return core_ != nullptr; }
  bool is_backup() const { return receiver_ != nullptr; }
  bool keeps_copy() const { return receiver_ && receiver_->has_jobs(); }  // complete, of what workers use
  bool has_backup() const { return sender_ && backup_.exists; }
  bool is_synced() const { return sender_ && sender_->is_synced(); }  // the backup
  std::uint64_t log_bytes() const { return sender_ ? sender_->log_bytes() : 0; }
  // Empty: workers are served. Else why not, for those that ask.
  std::string reason_not_to_serve(Clock::time_point now) const;
  // Empty: what this server has of the shard, as its primary or its backup, is complete. Else what is missing. With
  // `copied` each shard is to have a backup, on whichever server.
  std::string reason_not_complete(bool copied) const;
  ServerCore* core() { return core_.get(); }
  const ServerCore* core() const { return core_.get(); }
  void finish_snapshot();
  void add_snapshots_to(SnapshotStats& stats, Clock::time_point now) const;
  // To be called after each use of the core: sends what it wants to say, or holds it until the backup has it.
  void say(Clock::time_point now);

  // Somebody says hello to this server as the primary.
  void primary_greeted(Peer peer, const ReplicaMessage& hello);
  // The connections to its copies, or from its primary. What comes from other peers is ignored.
  void connected(Peer peer);
  void disconnected(Peer peer, const std::string& why, Clock::time_point now);
  std::span<std::byte> memory_for(Peer peer, const ReplicaMessage& message, std::size_t bytes);
  void received(Peer peer, const ReplicaMessage& message, std::span<const std::byte> payload,
                Clock::time_point now);

 private:
  void keep_role(const ShardView& view, const Views& views, Clock::time_point now);
  void set_receiver(const ShardView& view, std::unique_ptr<ServerCore> former);
  std::string objection(const ReplicaMessage& hello) const;
  void begin(std::unique_ptr<ServerCore> core, const ShardView& view, Clock::time_point now);
  void keep_snapshots(bool restores);
  void end_retired();
  void take_over(const ShardView& view, Clock::time_point now);
  std::unique_ptr<ServerCore> stop_serving();

  ShardOwner& owner_;
  const std::uint32_t number_;
  std::uint64_t epoch_ = 0;
  std::uint64_t primary_ = 0;           // of this epoch
  std::uint16_t primary_protocol_ = 1;  // the newest that it speaks
  std::string refused_{};               // why a hello was refused last
  ReplicaSender::Backup backup_{};      // of a primary
  Clock::time_point serves_from_{};
  std::unique_ptr<ServerCore> core_{};      // of a primary
  std::unique_ptr<Snapshots> snapshots_{};  // of a primary, if they are wanted
  std::unique_ptr<Snapshots> retired_{};    // of a former primary: one that is still being written
  bool keep_failed_ = false;                // to begin them, as an event has said
  Clock::time_point next_keep_{};           // when that is tried again
  std::unique_ptr<ReplicaSender> sender_{};
  std::unique_ptr<ReplicaReceiver> receiver_{};  // of a backup or a learner
};

}  // namespace heddle::kv_detail
