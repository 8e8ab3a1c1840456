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
#include "server/state_saver.h"
#include "wire/replication.h"

namespace heddle::kv_detail {

// Numbers of a primary's changes: records count from 1 on, for all copies alike.
struct ReplicaLog {
  std::uint64_t number = 0;  // random
  std::uint64_t last = 0;    // record
};

class ReplicaLink {
 public:
  struct Target {
    bool exists = false;                       // if not, workers are told at once
    std::string address{};                     // may be unknown yet
    bool patient = false;                      // workers are told nothing before it has all
    std::uint16_t protocol = kOldestProtocol;  // the newest that it speaks
    bool learner = false;                      // what it has confirmed may be copied anew
  };
  // `copy`: its number, see ShardView. Connects with the first tick().
  ReplicaLink(ShardOwner& owner, ServerCore& core, std::uint32_t shard, const ReplicaLog& log,
              std::uint64_t copy, Target target, Clock::time_point now);
  ~ReplicaLink();
  ReplicaLink(const ReplicaLink&) = delete;
  ReplicaLink& operator=(const ReplicaLink&) = delete;

  std::uint64_t copy() const { return copy_; }
  bool exists() const { return target_.exists; }
  void set_protocol(std::uint16_t protocol) { target_.protocol = protocol; }  // from the next connection on
  void becomes_backup() { target_.learner = lost_ = false; }
  // Takes records, and is to be told of each.
  bool is_begun() const { return stage_ != Stage::idle; }
  bool is_connected() const { return greeted_; }  // and has answered within the last seconds
  void add(const Change& change, std::uint64_t number);
  // Whether workers may be told what follows this record.
  bool may_tell(std::uint64_t after, Clock::time_point now) const;
  void tick(Clock::time_point now);

  Peer peer() const { return peer_; }  // 0: there is no connection
  void connected();
  void disconnected(const std::string& why, Clock::time_point now);
  void received(const ReplicaMessage& message, Clock::time_point now);

  // Goes on, for a moment, with a state that is being sent; has_more(): there is one.
  void go_on(Clock::time_point now);
  bool has_more() const { return saver_ != nullptr; }
  bool is_synced() const { return stage_ == Stage::synced; }
  std::uint64_t log_bytes() const { return entry_bytes_; }

 private:
  // sending: the state, and the records since. closing: workers are told only what the backup has, but it does not have yet
  // all that they were told before.
  enum class Stage : std::uint8_t { idle, sending, closing, synced };
  struct Entry {
    std::uint64_t number;
    Change change;
  };
  struct Loss {
    std::string why;
    Clock::time_point due;  // when it is logged, unless the link has ended
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
  bool greeted_ = false;                     // it has said what it has
  std::optional<Loss> loss_{};               // of the connection
  bool lost_ = false;                        // it has lost what it had confirmed
  std::uint16_t version_ = kOldestProtocol;  // of the connection
  Stage stage_ = Stage::idle;
  std::chrono::milliseconds retry_{};
  Clock::time_point next_try_{}, next_beat_{}, lease_end_{}, heard_{}, last_tick_{};
  std::size_t queued_ = 0;                    // bytes for it, at the last tick
  std::uint64_t acknowledged_ = 0, cut_ = 0;  // numbers of records; cut_: see closing
  std::unique_ptr<StateSaver> saver_{};       // of the state that is being sent; null: none, or all
  std::uint64_t begun_at_ = 0;                // the record that was the last one then
  std::deque<Entry> entries_{};               // that it has not confirmed
  std::uint64_t entry_bytes_ = 0;
};

}  // namespace heddle::kv_detail
