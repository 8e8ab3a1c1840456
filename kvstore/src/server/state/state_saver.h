// The state of a server's core as messages, collected in pieces while the core goes on.
//
// The messages have the state of the moment at which the saver was made: a key that is about to change and
// has not been collected yet is copied first (copy on write). So to make a saver takes time in proportion to
// the number of jobs and workers, and no piece of the work takes time in proportion to the number of all
// keys.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "server/server_core.h"
#include "snapshot/saved_message.h"
#include "wire/state_records.h"

namespace heddle::kv_detail {

// head: an encoded StateRecord, at most 64 KiB. payload: bytes of an array, at most kPieceBytes.
using StateSink = std::function<void(std::vector<std::byte> head, Payload payload)>;

class StateSaver {
 public:
  // Will save the present state of the core, which outlives this object. All calls are on the core's thread.
  explicit StateSaver(const ServerCore& core, std::uint16_t version = kStateVersion);
  ~StateSaver();
  StateSaver(const StateSaver&) = delete;
  StateSaver& operator=(const StateSaver&) = delete;

  // Calls the sink with the next messages, of at most `keys` keys. Returns true if these were the last
  // messages. Payloads share arrays with the core. While a payload lives, the core copies an array before it
  // changes the array. The optimizer's state of rows is copied at once. Throws std::bad_alloc if memory for a
  // copy was lacking.
  bool go_on(std::size_t keys, const StateSink& sink);
  // Called before a key changes: copies the key unless it has been collected.
  void keep(const KeyTable& keys, const JobKey& key) noexcept;

 private:
  struct SavedJob {
    std::shared_ptr<const Job> job;  // keeps the job in memory if it ends before it is collected
    std::size_t keys = 0;            // number of keys when the saver was made
    std::vector<SavedMessage> heads{};
    // Messages of keys that were copied because they changed, by the key's index.
    std::map<std::size_t, std::vector<SavedMessage>> kept{};
  };
  using Messages = std::vector<SavedMessage>;
  void put(Messages& to, const StateRecord& record, Payload payload = {}) const;
  void put_job(Messages& to, const Job& job) const;
  void put_worker(Messages& to, const JobWorker& worker) const;
  void put_key(Messages& to, const JobKey& key) const;
  void put_arrays(Messages& to, const StoredKey& key) const;
  void put_push(Messages& to, const StoredKey& key, std::uint32_t rank, const Push& push) const;
  void put_array(Messages& to, StateArray array, const Payload& whole) const;
  void hand_out(Messages messages, const StateSink& sink);
  Messages take_key(SavedJob& job);
  void end();

  const ServerCore& core_;
  const std::uint16_t version_;
  std::vector<SavedJob> jobs_{};
  // Indices in jobs_ of the jobs that are not collected completely, by their table of keys.
  std::unordered_map<const KeyTable*, std::size_t> numbers_{};
  std::size_t job_ = 0, key_ = 0;  // indices of the next job and key to collect
  std::uint64_t messages_ = 0;     // number of messages handed out so far
  bool failed_ = false;
};

}  // namespace heddle::kv_detail
