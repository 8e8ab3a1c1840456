#include "membership/leadership.h"

#include <utility>

namespace heddle::kv_detail {

using What = StoreCondition::What;

std::string leader_key(const std::string& prefix) { return prefix + "/leader"; }
std::string state_key(const std::string& prefix) { return prefix + "/state"; }

Leadership::Leadership(ConsensusStore& store, std::string prefix, std::string address,
                       std::chrono::milliseconds lease, Clock clock)
    : store_(store),
      leader_key_(leader_key(prefix)),
      state_key_(state_key(prefix)),
      address_(std::move(address)),
      lease_time_(lease),
      clock_(std::move(clock)) {}

bool Leadership::campaign() {
  const auto leads = [this](std::int64_t created) {
    created_ = created;
    leader_ = address_;
    return true;
  };
  leader_.clear();
  if (const std::optional<StoreEntry> entry = store_.get(leader_key_)) {
    // This scheduler has made the key in an earlier attempt, whose answer was lost.
    if (lease_ != 0 && entry->lease == lease_) return leads(entry->created);
    leader_ = entry->value;
    return false;
  }
  if (lease_ == 0 || clock_() + lease_time_ / 2 > valid_until_) {
    const Time asked = clock_();
    const StoreLease lease = store_.grant(lease_time_);
    lease_ = lease.id;
    valid_until_ = asked + lease.time;
  }
  const auto revision = store_.put_if({{What::created, leader_key_, 0}}, leader_key_, address_, lease_);
  return revision ? leads(*revision) : false;
}

std::optional<std::string> Leadership::load() {
  const std::optional<StoreEntry> entry = store_.get(state_key_);
  modified_ = entry ? entry->modified : 0;
  return entry ? std::optional(entry->value) : std::nullopt;
}

bool Leadership::renew() {
  const Time asked = clock_();
  const std::chrono::milliseconds time = store_.renew(lease_);
  if (time.count() == 0) return false;
  valid_until_ = asked + time;
  return true;
}

bool Leadership::still_leads() {
  const std::optional<StoreEntry> entry = store_.get(leader_key_);
  return entry && entry->created == created_;
}

bool Leadership::save(const std::string& state) {
  for (;;) {
    const auto revision =
        store_.put_if({{What::created, leader_key_, created_}, {What::modified, state_key_, modified_}},
                      state_key_, state, 0);
    if (revision) {
      modified_ = *revision;
      return true;
    }
    if (!still_leads()) return false;
    // This leader has saved the state that is there, in an earlier call or in an earlier attempt of this
    // call, and the answer was lost.
    const std::optional<StoreEntry> entry = store_.get(state_key_);
    modified_ = entry ? entry->modified : 0;
    if (entry && entry->value == state) return true;
  }
}

void Leadership::resign() {
  const std::int64_t lease = std::exchange(lease_, 0);
  created_ = 0;
  valid_until_ = {};
  if (lease != 0) store_.revoke(lease);
}

}  // namespace heddle::kv_detail
