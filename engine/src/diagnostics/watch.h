// HEDDLE_WATCHDOG: records which ops run and since when; a thread reports when none of them ends.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>

#include "core/op_observer.h"
#include "diagnostics/pending.h"

namespace heddle::detail {

// Decides when to report: when ops have been in flight for `limit` and none has ended, then each time when
// this has lasted twice as long as at the last report.
class StallTimer {
 public:
  using Time = std::chrono::duration<double>;
  explicit StallTimer(Time limit) : limit_(limit), next_(limit) {}
  // Call it at intervals. `ended` counts the ops that have ended.
  bool due(Time now, std::uint64_t ended, bool in_flight);
  Time stalled() const { return stalled_; }  // the time for which no op had ended at the last call of due()

 private:
  const Time limit_;
  Time next_;      // stalled time at which the next report is due
  Time since_{0};  // the last time at which an op had ended or none was in flight
  Time stalled_{0};
  std::uint64_t ended_ = 0;
  bool asked_ = false;
};

class Watch final : public OpObserver {
 public:
  // The constructor starts no thread: start() does, and throws std::system_error if it cannot. The core must
  // be constructed when start() is called.
  Watch(EngineCore& core, double seconds);
  ~Watch() override { stop(); }
  void start();
  void stop() noexcept override;

  void started(const OpNode& op, int worker) override;
  void returned(const OpNode& op) override;
  void completed(const OpNode& op) noexcept override;
  void deferred(const OpNode& op) override;
  void resumes(const OpNode& op) noexcept override;

  void visit(Pending& pending) override;

 private:
  struct Running {
    std::chrono::steady_clock::time_point since;
    int worker;
    PendingState state;
  };
  void watch();
  void report(double seconds);
  std::uint64_t count_ended();

  EngineCore& core_;
  const double seconds_;
  const std::string dot_path_;
  std::mutex mutex_;  // guards running_ and ended_
  std::unordered_map<const OpNode*, Running> running_;
  std::uint64_t ended_ = 0;
  std::mutex stop_mutex_;  // guards stopping_
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace heddle::detail
