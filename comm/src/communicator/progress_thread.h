// The progress thread of a communicator runs its calls in their order. A thread that waits for a call runs
// the call itself: pushing a call and waiting for it then takes a few microseconds, less than waking the
// progress thread.
//
// Calls that waiting threads run are counted. After kPollAfter of them in a row the progress thread expects
// more of them. It then polls at intervals for calls that no thread runs, and is not notified of calls that
// are ready when they are pushed.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <thread>

#include "communicator/call_queue.h"
#include "communicator/call_runner.h"

namespace heddle::comm_detail {

class ProgressThread {
 public:
  // Starts the thread. Queue and runner outlive it. `ranks_here`: the number of ranks on this host.
  ProgressThread(CallQueue& queue, CallRunner& runner, int ranks_here);
  // Waits for the thread. It ends when the queue is closed, and all calls have ended or the queue has timed out.
  void join();
  bool joined() const { return !thread_.joinable(); }

  // Runs, on the calling thread, ready calls that have to end before `var` is ready; none once `over` is not 0. Calls
  // that are pushed meanwhile are not run.
  void run_calls_for(const Var& var, const std::atomic<std::uint32_t>& over);

  // Ends with CommAborted a call that is ready and that the thread does not run any more.
  void refuse(Call& call) const;

 private:
  void loop();
  void await_work(CallQueue::Lock& lock);
  bool poll(CallQueue::Lock& lock);
  bool spin(CallQueue::Lock& lock);
  void run_next(CallQueue::Lock& lock);

  CallQueue& queue_;
  CallRunner& runner_;
  const std::chrono::microseconds poll_interval_;
  const std::exception_ptr destroyed_;  // the error of refused calls
  int run_by_waiters_ = 0;  // times in a row that a waiting thread has run calls; guarded by the queue's lock
  std::thread thread_;
};

}  // namespace heddle::comm_detail
