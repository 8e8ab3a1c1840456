#include "membership/shared_store.h"

namespace heddle::test {

using namespace kv_detail;

void SharedStore::expire() {
  std::erase_if(leases_, [this](const auto& one) { return one.second.end <= now; });
  std::erase_if(entries_, [this](const auto& one) {
    return one.second.lease != 0 && !leases_.contains(one.second.lease);
  });
}

std::optional<StoreEntry> SharedStore::get(const std::string& key) {
  expire();
  const auto found = entries_.find(key);
  return found == entries_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<std::int64_t> SharedStore::put_if(const std::vector<StoreCondition>& conditions,
                                                const std::string& key, const std::string& value,
                                                std::int64_t lease) {
  for (const StoreCondition& one : conditions) {
    const StoreEntry entry = get(one.key).value_or(StoreEntry{});
    if ((one.what == StoreCondition::What::created ? entry.created : entry.modified) != one.revision)
      return std::nullopt;
  }
  expire();
  if (lease != 0 && !leases_.contains(lease)) throw Error("the store: there is no such lease");
  StoreEntry& entry = entries_[key];
  entry.modified = ++revision_;
  if (entry.created == 0) entry.created = revision_;
  entry.value = value;
  entry.lease = lease;
  history.emplace_back(key, value);
  return revision_;
}

StoreLease SharedStore::grant(std::chrono::milliseconds time) {
  leases_[++last_lease_] = {time, now + time};
  return {last_lease_, time};
}

std::chrono::milliseconds SharedStore::renew(std::int64_t lease) {
  expire();
  const auto found = leases_.find(lease);
  if (found == leases_.end()) return {};
  found->second.end = now + found->second.time;
  return found->second.time;
}

void SharedStore::revoke(std::int64_t lease) {
  leases_.erase(lease);
  expire();
}

}  // namespace heddle::test
