// A key in the table of its job. It has the StoredKey, which is saved and which only a KeyChange changes, and
// what is not saved.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "server/job/outgoing.h"
#include "server/key/row_lists.h"
#include "server/key/stored_key.h"

namespace heddle::kv_detail {

// An init, a pull or a get_state that cannot be answered yet.
struct WaitingRequest {
  std::uint32_t rank;
  Request request;
  RowList rows{};        // numbers of the rows, if this is a pull of rows
  std::size_t left = 1;  // pull_many: number of its first keys that are not known to be ready yet
};

class JobKey {
 public:
  JobKey(std::uint32_t number, StoredKey stored) : stored_(std::move(stored)), number_(number) {}
  JobKey(const JobKey&) = delete;
  JobKey& operator=(const JobKey&) = delete;
  // Bytes that a key takes besides values, if its name has `name` bytes and the job has `workers` workers.
  static std::uint64_t overhead(std::size_t name, std::size_t workers) {
    constexpr std::size_t kOfMaps = 128;  // bytes that a key takes in maps of keys
    return sizeof(JobKey) + kOfMaps + 2 * name + workers * sizeof(PushQueues::OfWorker);
  }

  const StoredKey* operator->() const { return &stored_; }
  const StoredKey& operator*() const { return stored_; }
  std::uint32_t number() const { return number_; }
  std::size_t index() const { return number_ & kKeyIndex; }
  bool has_waiting() const { return stored_.pushes().any() || !waiting.empty(); }

  std::vector<WaitingRequest> waiting{};  // changed by WaitingRequests only
  KeyMemory counted{};                    // StoredKey::memory() as JobMemory has counted it last
  bool is_listed = false;                 // whether the key is in KeyTable::listed()

 private:
  friend class KeyChange;
  StoredKey stored_;
  const std::uint32_t number_;
};

}  // namespace heddle::kv_detail
