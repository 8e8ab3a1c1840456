// What a thread that waits for a var and the op that stands for it in the var's queue share.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>

namespace heddle::detail {

struct Failure;
struct OpNode;

// For a thread that waits no longer than some time.
struct Alarm {
  std::mutex mutex;
  std::condition_variable rung;
};

// What a blocked wait() and its op share.
struct WaitState {
  WaitState() = default;
  ~WaitState() { delete alarm.load(std::memory_order_relaxed); }
  WaitState(const WaitState&) = delete;
  WaitState& operator=(const WaitState&) = delete;

  // The op that waits, if any: it cannot end before. Guarded by OpWaits::mutex once the wait op is submitted.
  OpNode* resumes = nullptr;
  std::atomic<bool> entered{false};  // the wait op is queued on its var
  std::atomic<std::uint32_t> done{0};
  std::atomic<Alarm*> alarm{nullptr};     // made by the thread that waits, when it first needs one
  std::shared_ptr<const Failure> poison;  // the var's, in push order; written before done
};

}  // namespace heddle::detail
