// HEDDLE_WATCHDOG: which ops run and since when, and a thread that reports when none of them ends.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>

#include "diagnostics/pending.h"
#include "op/op_node.h"

namespace heddle::detail {

// When to report: as soon as ops have been in flight for `limit` and none has ended, then each time that this has
// lasted twice as long as at the last report.
class StallTimer {
 public:
  using Time = std::chrono::duration<double>;
  explicit StallTimer(Time limit) : limit_(limit), next_(limit) {}
  // To be asked now and then. `ended` counts the ops that have ended.
  bool due(Time now, std::uint64_t ended, bool in_flight);
  Time stalled() const { return stalled_; }  // when it was asked last

 private:
  const Time limit_;
  Time next_;      // report when stalled for so long
  Time since_{0};  // the last time that something moved, or nothing was in flight
  Time stalled_{0};
  std::uint64_t ended_ = 0;
  bool asked_ = false;
};

class Watch {
 public:
  // The thread starts with start(): the core must be whole by then. Throws std::system_error.
  Watch(EngineCore& core, double seconds);
  ~Watch() { stop(); }
  void start();
  void stop() noexcept;

  // By whoever runs ops: before its function is called; when the function of an asynchronous one has returned; before
  // it leaves its vars.
  void started(const OpNode& op, int worker);
  void returned(const OpNode& op);
  void ended(const OpNode& op) noexcept;
  // By whoever keeps one back until what streams do before it is done; and when that is.
  void kept_back(const OpNode& op);
  void resumes(const OpNode& op) noexcept;

  void visit(Pending& pending);  // all that have started and not ended, or are kept back

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
