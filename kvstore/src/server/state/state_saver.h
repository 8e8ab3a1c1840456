// The state of a server's core as messages, collected in pieces while the core goes on.
//
// It is the state of the moment at which the saver was made: a key that changes before it was collected is
// copied first (copy on write). So making a saver takes time in proportion to jobs and workers, and no piece
// of the work takes time in proportion to all keys.
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
  // Saves the state of this moment. The core outlives this object. One thread.
  explicit StateSaver(const ServerCore& core, std::uint16_t version = kStateVersion);
  ~StateSaver();
  StateSaver(const StateSaver&) = delete;
  StateSaver& operator=(const StateSaver&) = delete;

  // Calls the sink with the next messages, those of `keys` keys at most. True: these were the last ones.
  // Payloads share arrays with the core, which copies an array before it changes it as long as a payload
  // lives. The optimizer's state of rows is copied. Throws std::bad_alloc if memory for a copy was lacking.
  bool go_on(std::size_t keys, const StateSink& sink);
  // Copies the key, which is about to change, unless it has been collected.
  void keep(const KeyTable& keys, const JobKey& key) noexcept;

 private:
  struct SavedJob {
    std::shared_ptr<const Job> job;  // keeps the job after its end
    std::size_t keys = 0;            // number of keys when the saver was made
    std::vector<SavedMessage> heads{};
    std::map<std::size_t, std::vector<SavedMessage>> kept{};  // copies of keys that have changed since
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
  std::unordered_map<const KeyTable*, std::size_t> numbers_{};  // indices of jobs that are not collected yet
  std::size_t job_ = 0, key_ = 0;                               // the next job and key to collect
  std::uint64_t messages_ = 0;                                  // messages handed out so far
  bool failed_ = false;
};

}  // namespace heddle::kv_detail
