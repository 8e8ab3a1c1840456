// Which of several schedulers decides. The leader is the scheduler that has made the key PREFIX/leader, which ends with its lease; its
// decisions are in the key PREFIX/state.
//
// That two never decide does not depend on clocks. A save is done only while the key of this leader exists, and only on top
// of its former save: a save of a former leader is refused, and so is one that arrives late. A scheduler that becomes leader reads the
// state afterwards, so it knows of every save that was confirmed.
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

// One thread. Calls block as those of the store, and throw as those do: they may be repeated then.
class Leadership {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Clock = std::function<Time()>;

  // `address`: of this scheduler, for processes that look for it. `lease`: how long it leads without being heard.
  Leadership(ConsensusStore& store, std::string prefix, std::string address, std::chrono::milliseconds lease,
             Clock clock);

  // True: this scheduler leads. False: another one does, leader() says which, or it is to be tried again.
  bool campaign();
  const std::string& leader() const { return leader_; }  // an address; empty: not known

  // The next three are for a scheduler that leads.
  std::optional<std::string> load();    // empty: nothing was saved yet. To be called once before save()
  bool renew();                         // false: this scheduler leads no longer
  bool save(const std::string& state);  // the same; true: it is kept for good
  void resign();                        // another one may lead at once
  // When the lease may end, unless it is renewed: from then on another scheduler may lead. Nothing here depends on it.
  Time valid_until() const { return valid_until_; }

 private:
  bool still_leads();

  ConsensusStore& store_;
  const std::string leader_key_, state_key_, address_;
  const std::chrono::milliseconds lease_time_;
  const Clock clock_;
  std::string leader_;
  std::int64_t lease_ = 0;     // 0: none
  std::int64_t created_ = 0;   // the revision of this leader's key
  std::int64_t modified_ = 0;  // the revision of the state that was read or saved last
  Time valid_until_{};
};

}  // namespace heddle::kv_detail
