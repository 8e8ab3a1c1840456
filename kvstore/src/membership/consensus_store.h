// Interface of the replicated store that schedulers share: keys with revisions, conditional puts, and leases.
// EtcdClient implements it with etcd; tests have an implementation in memory.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace heddle::kv_detail {

struct StoreEntry {
  std::string value;
  // Revisions at which the key was made, and changed last. Each change of the store has a larger revision.
  std::int64_t created = 0, modified = 0;
  std::int64_t lease = 0;  // id of the lease with whose end the entry is deleted; 0: none
};

struct StoreCondition {
  enum class What : std::uint8_t { created, modified } what;
  std::string key;
  std::int64_t revision;  // the key must have this revision; 0: the key must not exist
};

struct StoreLease {
  std::int64_t id = 0;
  std::chrono::milliseconds time{};  // how long the lease lives unless it is renewed
};

// Each function blocks for a limited time, and throws Error if the store does not answer. In this case the
// request may have been done, may be done later, or is never done.
class ConsensusStore {
 public:
  virtual ~ConsensusStore() = default;
  virtual std::optional<StoreEntry> get(const std::string& key) = 0;  // returns the newest entry of the key
  // Tests all conditions and puts the value, atomically. Returns the revision of the change. Empty: a
  // condition is not met, which may be due to an earlier attempt of this very call that was done and whose
  // answer was lost.
  virtual std::optional<std::int64_t> put_if(const std::vector<StoreCondition>& conditions,
                                             const std::string& key, const std::string& value,
                                             std::int64_t lease) = 0;
  virtual StoreLease grant(std::chrono::milliseconds time) = 0;
  // Returns the time that is left of the renewed lease; 0: the lease has ended.
  virtual std::chrono::milliseconds renew(std::int64_t lease) = 0;
  virtual void revoke(std::int64_t lease) = 0;  // ends the lease, and deletes entries with this lease
};

}  // namespace heddle::kv_detail
