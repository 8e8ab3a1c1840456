// What a scheduler needs of a store of several machines: keys with revisions, a change under conditions, and leases.
// EtcdClient is one by etcd; tests have one in memory.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace heddle::kv_detail {

struct StoreEntry {
  std::string value;
  std::int64_t created = 0, modified = 0;  // revisions: each change of the store has one, which grows
  std::int64_t lease = 0;                  // the entry ends with it; 0: none
};

struct StoreCondition {
  enum class What : std::uint8_t { created, modified } what;
  std::string key;
  std::int64_t revision;  // 0: there is no such key
};

struct StoreLease {
  std::int64_t id = 0;
  std::chrono::milliseconds time{};  // how long it lives unless it is renewed
};

// Each call blocks for a limited time. It throws Error if there is no answer; then what it asks for may have been done, may
// be done later, or never.
class ConsensusStore {
 public:
  virtual ~ConsensusStore() = default;
  virtual std::optional<StoreEntry> get(const std::string& key) = 0;  // the newest
  // All conditions are tested and the value is put in one step. Returns the change's revision; empty: a condition is not met,
  // or an earlier attempt of this very call, whose answer was lost, has been done.
  virtual std::optional<std::int64_t> put_if(const std::vector<StoreCondition>& conditions,
                                             const std::string& key, const std::string& value,
                                             std::int64_t lease) = 0;
  virtual StoreLease grant(std::chrono::milliseconds time) = 0;
  virtual std::chrono::milliseconds renew(std::int64_t lease) = 0;  // how long it lives now; 0: it has ended
  virtual void revoke(std::int64_t lease) = 0;                      // and all its entries
};

}  // namespace heddle::kv_detail
