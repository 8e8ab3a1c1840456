// A change of a key, with all that it takes: a record for the backup, a copy for snapshots that are being
// collected, the count of the key's memory, and a place in the list of keys with pushes that wait.
#pragma once

#include "server/job/key_table.h"

namespace heddle::kv_detail {

class KeyChange {
 public:
  // Copies the key for snapshots that are being collected. `Recorded`: proof that the cause of the change is
  // recorded.
  KeyChange(Recorded, KeyTable& keys, JobKey& key) : keys_(keys), key_(key) {
    keys_.log_.copy_for_savers(keys_, key_);
  }
  ~KeyChange() {
    count();
    keys_.list(key_);
  }
  KeyChange(const KeyChange&) = delete;
  KeyChange& operator=(const KeyChange&) = delete;

  StoredKey* operator->() { return &key_.stored_; }
  StoredKey& operator*() { return key_.stored_; }
  // Counts the key's memory now. For answers that are made before the destructor counts it.
  void count() { keys_.memory_.recount(key_); }
  // Counts memory as optimizer state of the key that a push will need once it is complete. Needs no record,
  // since the reservation is not part of the saved state.
  static void reserve_state(KeyTable& keys, JobKey& key, std::uint64_t bytes) {
    key.stored_.reserve_state(bytes);
    keys.memory_.recount(key);
  }

 private:
  KeyTable& keys_;
  JobKey& key_;
};

}  // namespace heddle::kv_detail
