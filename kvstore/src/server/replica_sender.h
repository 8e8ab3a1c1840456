// A primary's end of the connection to its backup. It holds what workers are told until the backup has what they are told of.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "server/server_core.h"
#include "server/shard_owner.h"
#include "server/state_saver.h"
#include "wire/replication.h"

namespace heddle::kv_detail {

class ReplicaSender {
 public:
  // `log`: a random number, of this primary's records.
  ReplicaSender(ShardOwner& owner, ServerCore& core, std::uint32_t shard, std::uint64_t log)
      : owner_(owner), core_(core), shard_(shard), log_(log) {}
  ~ReplicaSender() {
    disconnect();
    count(-static_cast<std::int64_t>(entry_bytes_));
  }
  ReplicaSender(const ReplicaSender&) = delete;
  ReplicaSender& operator=(const ReplicaSender&) = delete;

  struct Backup {
    bool exists = false;                       // if not, workers are told at once
    std::string address{};                     // may be unknown yet
    bool patient = false;                      // workers are told nothing before the backup has all
    std::uint16_t protocol = kOldestProtocol;  // the newest that it speaks
  };
  void set_backup(std::uint64_t epoch, const Backup& backup, Clock::time_point now);
  void set_protocol(std::uint16_t protocol) { backup_.protocol = protocol; }  // from the next connection on
  // Takes what the core wants to say.
  void take(Outbox& outbox, Clock::time_point now);
  void tick(Clock::time_point now);

  Peer peer() const { return peer_; }  // the connection to the backup; 0: none
  void connected(Clock::time_point now);
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
  struct Held {
    std::uint64_t after;  // the record that the backup has to have
    Peer peer;
    Message message;
  };
  static std::uint64_t bytes_of(const Entry& entry);
  void count(std::int64_t bytes);
  void disconnect();
  void send(const ReplicaMessage& message, Payload payload = {});
  void send_entry(const Entry& entry);
  void send_state(Clock::time_point now);
  [[noreturn]] void report_lost();
  void look_for_silence(Clock::time_point now);
  void beat(Clock::time_point now);
  void welcomed(const ReplicaMessage& message, Clock::time_point now);
  void acknowledged(std::uint64_t number, Clock::time_point now);
  bool may_tell(std::uint64_t after, Clock::time_point now) const;
  void release(Clock::time_point now);
  void set_stage(Stage stage);

  ShardOwner& owner_;
  ServerCore& core_;
  const std::uint32_t shard_;
  const std::uint64_t log_;
  std::uint64_t epoch_ = 0;
  Backup backup_{};
  Peer peer_ = 0;
  bool greeted_ = false;                     // the backup has said what it has
  bool lost_ = false;                        // the backup has lost what it had confirmed
  std::uint16_t version_ = kOldestProtocol;  // of the connection
  Stage stage_ = Stage::idle;
  std::chrono::milliseconds retry_{};
  Clock::time_point next_try_{}, next_beat_{}, lease_end_{}, heard_{}, last_tick_{};
  std::size_t queued_ = 0;                               // bytes for the backup, at the last tick
  std::uint64_t last_ = 0, acknowledged_ = 0, cut_ = 0;  // numbers of records; cut_: see closing
  std::unique_ptr<StateSaver> saver_{};  // of the state that is being sent; null: none, or all
  std::uint64_t begun_at_ = 0;           // the record that was the last one then
  std::deque<Entry> entries_{};          // that the backup has not confirmed
  std::uint64_t entry_bytes_ = 0;
  std::deque<Held> held_{};
};

}  // namespace heddle::kv_detail
