// The flight recorder of a rank: its latest calls. For ranks that share memory see HostGroup instead.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "core/collective.h"

namespace heddle::comm_detail {

// Thread-safe.
class Recorder {
 public:
  static constexpr std::size_t kCalls = 1024;
  std::size_t begin(CallRecord& call);  // sets the call's time; returns the entry to pass to `end`
  void end(std::size_t entry, bool failed);
  std::string to_string(int rank) const;

 private:
  mutable std::mutex mutex_;  // guards all members below
  std::vector<CallRecord> calls_{kCalls};
  std::size_t count_ = 0;
};

// One call as a line of text, such as "  1763750000123 us  all_reduce #1 sum f32 x 4 at train.cc:31  done".
std::string line_of(const CallRecord& call);
std::int64_t nanoseconds_now();  // the time of CLOCK_REALTIME

}  // namespace heddle::comm_detail
