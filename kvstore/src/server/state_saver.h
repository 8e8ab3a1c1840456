// The state of a server's core as messages, collected in pieces while the core goes on.
//
// What is collected is the state of the moment at which it was begun: a key that is to change before its turn has come is
// collected right then (copy-on-write). So beginning takes a time in proportion to jobs and workers, and no piece of the work takes
// one in proportion to all keys.
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

// head: says what it is, at most 64 KiB. payload: bytes of an array, at most kPieceBytes.
using StateSink = std::function<void(std::vector<std::byte> head, Payload payload)>;

class StateSaver {
 public:
  // The state of this moment. The core outlives this object. One thread.
  explicit StateSaver(const ServerCore& core, std::uint16_t version = kStateVersion);
  ~StateSaver();
  StateSaver(const StateSaver&) = delete;
  StateSaver& operator=(const StateSaver&) = delete;

  // Calls the sink with the next messages, those of so many keys at most. True: these were the last ones. Arrays are shared
  // with the core, which copies one before it changes it as long as a payload lives; of rows the optimizer's state is
  // copied. Throws std::bad_alloc: the state cannot be had.
  bool go_on(std::size_t keys, const StateSink& sink);
  // The key is about to change.
  void keep(const Job& job, const StoredKey& key) noexcept;

 private:
  struct SavedJob {
    std::shared_ptr<const Job> job;  // also one that has ended since
    std::size_t keys = 0;            // that it had
    std::vector<SavedMessage> heads{};
    std::map<std::size_t, std::vector<SavedMessage>> kept{};  // of keys that have changed since
  };
  using Messages = std::vector<SavedMessage>;
  void put(Messages& to, const StateRecord& record, Payload payload = {}) const;
  void put_job(Messages& to, const Job& job) const;
  void put_worker(Messages& to, const Job::Worker& worker) const;
  void put_key(Messages& to, const Job& job, const StoredKey& key) const;
  void put_arrays(Messages& to, const StoredKey& key) const;
  void put_array(Messages& to, StateArray array, const Payload& whole) const;
  void hand_out(Messages messages, const StateSink& sink);
  Messages take_key(SavedJob& job);
  void end();

  const ServerCore& core_;
  const std::uint16_t version_;
  std::vector<SavedJob> jobs_{};
  std::unordered_map<const Job*, std::size_t> numbers_{};  // of those that are not passed yet
  std::size_t job_ = 0, key_ = 0;                          // whose turn it is
  std::uint64_t messages_ = 0;                             // handed out
  bool failed_ = false;
};

}  // namespace heddle::kv_detail
