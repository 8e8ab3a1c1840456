// Election of the leader among several schedulers. The leader is the scheduler that has made the key
// PREFIX/leader, which is deleted when the leader's lease ends. The leader's decisions are in the key
// PREFIX/state.
//
// Two schedulers never decide at one time, whatever their clocks show. A save succeeds only while the key
// that this leader has made exists, and only if the state is the one that this leader has read or saved last.
// So the store refuses saves of a former leader, also those that arrive late. A new leader reads the state
// after it has made its key, so it knows every confirmed save.
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

// All functions are called on one thread. They block and throw as those of ConsensusStore do. A call that has
// thrown may be repeated.
class Leadership {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Clock = std::function<Time()>;

  // `address`: address of this scheduler, for other processes. `lease`: time for which it stays the leader
  // without being heard by the store.
  Leadership(ConsensusStore& store, std::string prefix, std::string address, std::chrono::milliseconds lease,
             Clock clock);

  // Tries to become the leader. False: the scheduler at leader() leads, or, if that is empty, campaign() has
  // to be called again.
  bool campaign();
  const std::string& leader() const { return leader_; }  // address of the leader; empty: not known

  // load(), renew() and save() are for the leader only. load() returns the saved state, empty if there is
  // none; it has to be called once before save().
  std::optional<std::string> load();
  bool renew();                         // renews the lease; false: this scheduler is no longer the leader
  bool save(const std::string& state);  // true: the state is saved for good; false: no longer the leader
  void resign();                        // ends the lease, so that another scheduler may lead at once
  // Time at which the lease may end unless it is renewed; then another scheduler may lead. That two
  // schedulers never decide at one time does not depend on this time.
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
