// Election of the leader among several schedulers: the one that has made the key PREFIX/leader, which ends
// with its lease. Its decisions are in the key PREFIX/state.
//
// That two never decide does not depend on clocks. A save succeeds only while this leader's key exists, and
// only on top of the state that it has read or saved last: saves of a former leader are refused, and late
// ones, too. A new leader reads the state after it has made its key, so it knows every confirmed save.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "membership/consensus_store.h"

namespace heddle::kv_detail {

std::string leader_key(const std::string& prefix);
std::string state_key(const std::string& prefix);

// One thread. Calls block as those of the store, and throw as they do. Then they may be repeated.
class Leadership {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Clock = std::function<Time()>;

  // `address`: that of this scheduler, for others. `lease`: time for which it leads without being heard.
  Leadership(ConsensusStore& store, std::string prefix, std::string address, std::chrono::milliseconds lease,
             Clock clock);

  // Tries to become the leader. False: leader() leads or, if that is empty, it is to be tried again.
  bool campaign();
  const std::string& leader() const { return leader_; }  // address of the leader; empty: not known

  // load(), renew() and save() are for the leader only.
  std::optional<std::string> load();    // empty: nothing was saved yet. To be called once before save()
  bool renew();                         // false: this scheduler is no longer the leader
  bool save(const std::string& state);  // false: as renew(); true: the state is kept for good
  void resign();                        // gives up the lease: another scheduler may lead at once
  // When the lease may end, unless it is renewed: then another may lead. Safety does not depend on it.
  Time valid_until() const { return valid_until_; }

 private:
  bool still_leads();

  ConsensusStore& store_;
  const std::string leader_key_, state_key_, address_;
  const std::chrono::milliseconds lease_time_;
  const Clock clock_;
  std::string leader_;
  std::int64_t lease_ = 0;     // id of the lease; 0: none
  std::int64_t created_ = 0;   // revision at which this leader's key was made
  std::int64_t modified_ = 0;  // revision of the state that was read or saved last
  Time valid_until_{};
};

}  // namespace heddle::kv_detail
