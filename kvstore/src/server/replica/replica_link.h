// A primary's connection to one process that gets a copy of the shard: its backup, or a learner.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/server_core.h"
#include "server/shard_owner.h"
#include "server/state/state_saver.h"
#include "wire/replication.h"

namespace heddle::kv_detail {

// The sequence of a primary's records, which are numbered from 1 on. All copies get the same records.
struct ReplicaLog {
  std::uint64_t number = 0;  // random number of this log
  std::uint64_t last = 0;    // number of the last record
};

class ReplicaLink {
 public:
  struct Target {
    bool exists = false;                       // whether there is a target; if not, answers do not wait
    std::string address{};                     // HOST:PORT; empty: not known yet
    bool patient = false;                      // whether answers to workers wait until the copy has all state
    std::uint16_t protocol = kOldestProtocol;  // newest version that the target speaks
    bool learner = false;                      // whether the target is a learner, which may lose its copy
  };
  // `copy`: number of the copy, see ShardView. The first tick() connects.
  ReplicaLink(ShardOwner& owner, ServerCore& core, std::uint32_t shard, const ReplicaLog& log,
              std::uint64_t copy, Target target, Clock::time_point now);
  ~ReplicaLink();
  ReplicaLink(const ReplicaLink&) = delete;
  ReplicaLink& operator=(const ReplicaLink&) = delete;

  std::uint64_t copy() const { return copy_; }
  bool exists() const { return target_.exists; }
  // Sets the newest version that the target speaks, for the next connection.
  void set_protocol(std::uint16_t protocol) { target_.protocol = protocol; }
  void becomes_backup() { target_.learner = lost_ = false; }
  // Whether a state is being or was sent to the target, so that add() must be called for each record.
  bool is_begun() const { return stage_ != Stage::idle; }
  bool is_connected() const { return greeted_; }  // whether the target has answered within the last seconds
  void add(const Change& change, std::uint64_t number);
  // True if answers to workers that depend on the records up to `after` may be sent.
  bool may_tell(std::uint64_t after, Clock::time_point now) const;
  void tick(Clock::time_point now);

  Peer peer() const { return peer_; }  // 0: there is no connection
  void connected();
  void disconnected(const std::string& why, Clock::time_point now);
  void received(const ReplicaMessage& message, Clock::time_point now);

  // Sends the next piece of the state. To be called if has_more().
  void go_on(Clock::time_point now);
  bool has_more() const { return saver_ != nullptr; }
  bool is_synced() const { return stage_ == Stage::synced; }
  std::uint64_t log_bytes() const { return entry_bytes_; }

 private:
  // idle: the target gets no copy yet. sending: it is sent the state, and the records of later changes.
  // closing: answers to workers wait for it, but it still lacks records whose changes workers know of.
  // synced: it has all records whose changes workers know of.
  enum class Stage : std::uint8_t { idle, sending, closing, synced };
  struct Entry {
    std::uint64_t number;
    Change change;
  };
  struct Loss {
    std::string why;
    Clock::time_point due;  // time at which the loss is logged, unless the link is destroyed earlier
  };
  static std::uint64_t bytes_of(const Entry& entry);
  void count(std::int64_t bytes);
  void disconnect();
  void send(const ReplicaMessage& message, Payload payload = {});
  void send_entry(const Entry& entry);
  void send_state(Clock::time_point now);
  void report_lost();
  void log_loss();
  void look_for_silence(Clock::time_point now);
  void beat(Clock::time_point now);
  void welcomed(const ReplicaMessage& message, Clock::time_point now);
  void acknowledged(std::uint64_t number, Clock::time_point now);
  void set_stage(Stage stage);

  ShardOwner& owner_;
  ServerCore& core_;
  const std::uint32_t shard_;
  const ReplicaLog& log_;
  const std::uint64_t copy_;
  Target target_;
  Peer peer_ = 0;
  bool greeted_ = false;                     // whether the target has sent its welcome on this connection
  std::optional<Loss> loss_{};               // a loss of the connection that is to be logged
  bool lost_ = false;                        // whether it was reported that the target has lost its copy
  std::uint16_t version_ = kOldestProtocol;  // protocol version of the connection
  Stage stage_ = Stage::idle;
  std::chrono::milliseconds retry_{};
  Clock::time_point next_try_{}, next_beat_{}, lease_end_{}, heard_{}, last_tick_{};
  std::size_t queued_ = 0;  // bytes that waited to be sent to the target at the last tick
  // Numbers of the last confirmed record, and the last before `closing`.
  std::uint64_t acknowledged_ = 0, cut_ = 0;
  std::unique_ptr<StateSaver> saver_{};  // collects the state that is being sent; null: none, or all is sent
  std::uint64_t begun_at_ = 0;           // number of the last record that the state includes
  std::deque<Entry> entries_{};          // records that the target has not confirmed
  std::uint64_t entry_bytes_ = 0;
};

}  // namespace heddle::kv_detail
