// The replicated store that schedulers share: keys with revisions, conditional puts, and leases. EtcdClient
// is the one of etcd; tests have one in memory.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace heddle::kv_detail {

struct StoreEntry {
  std::string value;
  std::int64_t created = 0, modified = 0;  // revisions: each change of the store has a larger one
  std::int64_t lease = 0;                  // the entry is deleted when this lease ends; 0: none
};

struct StoreCondition {
  enum class What : std::uint8_t { created, modified } what;
  std::string key;
  std::int64_t revision;  // revision to compare with; 0: the key does not exist
};

struct StoreLease {
  std::int64_t id = 0;
  std::chrono::milliseconds time{};  // how long the lease lives unless it is renewed
};

// Each call blocks for a limited time. It throws Error if there is no answer; then its request may have been
// done, may be done later, or never.
class ConsensusStore {
 public:
  virtual ~ConsensusStore() = default;
  virtual std::optional<StoreEntry> get(const std::string& key) = 0;  // the newest entry
  // Tests all conditions and puts the value, atomically. Returns the revision of the change; empty: a
  // condition is not met, or an earlier attempt of this very call, whose answer was lost, has been done.
  virtual std::optional<std::int64_t> put_if(const std::vector<StoreCondition>& conditions,
                                             const std::string& key, const std::string& value,
                                             std::int64_t lease) = 0;
  virtual StoreLease grant(std::chrono::milliseconds time) = 0;
  // Returns the time that is left of the lease; 0: it has ended.
  virtual std::chrono::milliseconds renew(std::int64_t lease) = 0;
  virtual void revoke(std::int64_t lease) = 0;  // ends the lease, and deletes its entries
};

}  // namespace heddle::kv_detail
