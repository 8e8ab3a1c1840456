#include "core/recorder.h"

#include <algorithm>
#include <ctime>

namespace heddle::comm_detail {

std::int64_t nanoseconds_now() {
  timespec time{};
  clock_gettime(CLOCK_REALTIME, &time);
  return time.tv_sec * 1'000'000'000 + time.tv_nsec;
}

std::string line_of(const CallRecord& call) {
  constexpr const char* kStates[] = {"called", "done", "failed"};
  return "  " + std::to_string(call.nanoseconds / 1000) + " us  " + call.to_string() + "  " +
         kStates[std::min<int>(call.state, 2)] + "\n";
}

std::size_t Recorder::begin(CallRecord& call) {
  call.nanoseconds = nanoseconds_now();
  std::lock_guard guard(mutex_);
  calls_[count_ % kCalls] = call;
  return count_++;
}

void Recorder::end(std::size_t entry, bool failed) {
  std::lock_guard guard(mutex_);
  calls_[entry % kCalls].state = failed ? 2 : 1;
}

std::string Recorder::to_string(int rank) const {
  std::lock_guard guard(mutex_);
  std::string text = "rank " + std::to_string(rank) + ": " + std::to_string(count_) + " calls\n";
  for (std::size_t i = count_ > kCalls ? count_ - kCalls : 0; i < count_; ++i)
    text += line_of(calls_[i % kCalls]);
  return text;
}

}  // namespace heddle::comm_detail
