// A shard (a part of the keys) on this server. The scheduler's views say whether the server is the shard's
// primary, which serves workers, or its backup, or neither. The number of a shard's view is the epoch.
//
// Whatever a primary has told workers is not lost with the primary, and no two primaries answer at one time
// (Oki and Liskov, "Viewstamped replication", PODC 1988; leases: Gray and Cheriton, SOSP 1989):
// - A primary with a complete backup answers workers only when the backup has the change, too.
// - The scheduler makes a backup the primary only if the primary has reported that the backup has all state.
// - A primary answers for 250 ms after its backup has last answered a beat. The backup takes over later.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "server/replica/replica_receiver.h"
#include "server/replica/replica_sender.h"
#include "server/state/snapshots.h"
#include "wire/views.h"

namespace heddle::kv_detail {

class Shard {
 public:
  Shard(ShardOwner& owner, std::uint32_t number) : owner_(owner), number_(number) {}

  // Takes the newest view of the shard. It is part of `views`, which have the servers' addresses and
  // versions.
  void set_view(const ShardView& view, const Views& views, Clock::time_point now);
  void tick(Clock::time_point now);
  // Collects the next piece of the state for a snapshot or a new backup. To be called if has_more().
  void go_on(Clock::time_point now);
  bool has_more() const;
  bool holds_answers() const { return sender_ && sender_->holds_answers(); }

  std::uint64_t epoch() const { return epoch_; }
  bool is_primary() const { return core_ != nullptr; }
  bool is_backup() const { return receiver_ != nullptr; }
  // Whether this server, as backup or learner, has a complete copy of the shard, and the copy has jobs.
  bool keeps_copy() const { return receiver_ && receiver_->has_jobs(); }
  bool has_backup() const { return sender_ && backup_.exists; }
  bool is_synced() const { return sender_ && sender_->is_synced(); }  // whether the backup has all state
  std::uint64_t log_bytes() const { return sender_ ? sender_->log_bytes() : 0; }
  // Why this server does not serve the shard's workers, as text for them; empty: it does.
  std::string reason_not_to_serve(Clock::time_point now) const;
  // Why a copy of the shard is incomplete, as far as this server knows; empty: all are complete. With
  // `copied` the shard has to have a backup, on whichever server.
  std::string reason_not_complete(bool copied) const;
  ServerCore* core() { return core_.get(); }
  const ServerCore* core() const { return core_.get(); }
  void finish_snapshot();
  void add_snapshots_to(SnapshotStats& stats, Clock::time_point now) const;
  // To be called after each use of the core. Sends the core's answers, or holds them until the backup has the
  // changes.
  void say(Clock::time_point now);

  // Called when a peer says hello as the primary of this shard.
  void primary_greeted(Peer peer, const ReplicaMessage& hello);
  // Handle events of the connections to the shard's copies, or from its primary. Events of other peers are
  // ignored.
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
  std::uint64_t primary_ = 0;           // incarnation of the primary of this epoch
  std::uint16_t primary_protocol_ = 1;  // newest protocol version that the primary speaks
  std::string refused_{};               // why a primary's hello was refused last
  ReplicaSender::Backup backup_{};      // the backup, if this server is the primary
  Clock::time_point serves_from_{};
  std::unique_ptr<ServerCore> core_{};      // set if this server is the primary
  std::unique_ptr<Snapshots> snapshots_{};  // set on a primary with a folder for snapshots
  std::unique_ptr<Snapshots> retired_{};    // snapshots of a former primary, while one is still being written
  bool keep_failed_ = false;                // whether the last attempt to begin snapshots failed
  Clock::time_point next_keep_{};           // time at which snapshots are tried again
  std::unique_ptr<ReplicaSender> sender_{};
  std::unique_ptr<ReplicaReceiver> receiver_{};  // set on a backup or a learner
};

}  // namespace heddle::kv_detail
