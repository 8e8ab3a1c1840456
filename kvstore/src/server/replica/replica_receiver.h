// A backup's end of the connection from its primary. It has a ServerCore, which makes all changes that the
// primary makes.
#pragma once

#include <cstdint>
#include <memory>

#include "server/server_core.h"
#include "server/shard_owner.h"
#include "server/state/state_stream.h"
#include "wire/replication.h"

namespace heddle::kv_detail {

class ReplicaReceiver {
 public:
  // `copy`: number of the copy, see ShardView. `former`: the state of this process if it was the primary
  // before a handover; it is kept until the new primary's state has come.
  ReplicaReceiver(ShardOwner& owner, std::uint32_t shard, std::uint64_t copy,
                  std::unique_ptr<ServerCore> former)
      : owner_(owner), shard_(shard), copy_(copy), former_(std::move(former)) {}
  ~ReplicaReceiver() { disconnect(); }
  ReplicaReceiver(const ReplicaReceiver&) = delete;
  ReplicaReceiver& operator=(const ReplicaReceiver&) = delete;

  // Called when the primary has said hello, to make this copy.
  void greeted(Peer peer, const ReplicaMessage& hello);
  void disconnected() { peer_ = 0; }
  // See Receiver. memory_for() and received() throw ReplicaDiverged for a change of the primary that cannot
  // be made here. The copy then lacks this change, which the primary does not know, so the process has to
  // end.
  std::span<std::byte> memory_for(const ReplicaMessage& message, std::size_t bytes);
  void received(const ReplicaMessage& message, std::span<const std::byte> payload, Clock::time_point now);

  Peer peer() const { return peer_; }
  std::uint64_t copy() const { return copy_; }
  bool is_complete() const { return complete_ || former_; }
  bool has_jobs() const { return complete_ ? core_->has_jobs() : former_ && former_->has_jobs(); }
  // The primary does not answer workers from this time on.
  Clock::time_point end_of_lease() const { return lease_end_; }
  std::unique_ptr<ServerCore> take_core() { return std::move(complete_ ? core_ : former_); }

 private:
  void disconnect();
  void answer(ReplicaKind kind, std::uint64_t number);
  void begin_state();
  void apply(const ReplicaMessage& message, std::size_t payload, Clock::time_point now);

  ShardOwner& owner_;
  const std::uint32_t shard_;
  const std::uint64_t copy_;
  Peer peer_ = 0;
  std::unique_ptr<ServerCore> former_;
  std::unique_ptr<ServerCore> core_{};
  std::unique_ptr<StateLoader> loader_{};
  bool complete_ = false;
  std::uint64_t log_ = 0, applied_ = 0;
  Clock::time_point lease_end_{};
};

class ReplicaDiverged : public Error {
 public:
  using Error::Error;
};

}  // namespace heddle::kv_detail
