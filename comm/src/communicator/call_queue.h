// The calls of a communicator in their order.
//
// A call is enqueued when it is made, which fixes its position. Its op marks it as ready once its arrays are computed.
// Calls run in their order, each when it is ready, so that no op waits for the op of the call before. A call in a
// captured graph is enqueued by an op each time the graph is launched. Once a call has been captured, all later calls
// are enqueued by ops, so that they keep their order with those of launches. With one rank a call that is ready goes
// first, since two threads may enqueue their calls in one order and push the ops in the other.
//
// Locking: one mutex guards the queue, the flags of its calls and the counters of ProgressThread. Functions with a
// parameter of type Lock want it held; all others lock it themselves. While it is held no other mutex is locked, and no
// op is pushed or completed and no array released, since the engine would run ops that become ready on the same thread,
// and these may be calls of this communicator.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "communicator/call.h"
#include "core/backend.h"

namespace heddle::comm_detail {

// Thread-safe. Functions that throw when closed throw CommError.
class CallQueue {
 public:
  using Lock = std::unique_lock<std::mutex>;

  // `all` is the var that all calls read: a thread that waits for it waits for every call. Calls of up to
  // fusion_bytes together run as one (fusion.h).
  CallQueue(const Var& all, const Backend& backend, std::size_t fusion_bytes);

  // --- For threads that make calls.

  // Counts a call that is about to be pushed; a captured call is counted at each launch of its graph. Returns
  // true if the call is now enqueued, and false if an op has to enqueue it. Throws when closed.
  bool add(const std::shared_ptr<Call>& call, bool captured);
  // Called in the op that enqueues the call. `launched`: the op is part of a graph, so that each launch of
  // the graph is a call.
  void enqueue(const std::shared_ptr<Call>& call, bool launched);
  // Called if the call's op could not be pushed. `enqueued`: whether the call is in the queue, or an op that
  // enqueues it was pushed.
  void cancel(const std::shared_ptr<Call>& call, bool enqueued);
  // Called in the call's op when its arrays are computed. `in_push`: the op runs inside its own push. False
  // if the progress thread has ended, so that the call will never run.
  bool mark_ready(const std::shared_ptr<Call>& call, bool in_push);
  // Called if the call's op was skipped. Replaces the call by one that tells the other ranks `why` there are
  // no data.
  void replace_skipped(const std::shared_ptr<Call>& call, const std::string& why);
  // Called when the caller reclaims the call's memory. The call still takes part, but fails and uses no
  // memory. If the call is running, or is one of the calls that run next, abandon() waits for it instead.
  void abandon(Call& call);

  // Begins a call that runs on the calling thread, without an op and without an entry in the queue. False,
  // and no call is begun, if earlier calls have not ended, or launches of graphs may still enqueue calls.
  // Throws when closed.
  bool begin_direct_call();
  void end_direct_call();

  // A call on arrays of a device is an op on the device's stream; the queue only counts it.
  // begin_device_call() throws when closed.
  void begin_device_call();
  void end_device_call();

  // --- For the end of the communicator.

  // From now on no call can be made. Returns whether all calls have ended.
  bool close();
  // Waits until all calls have ended. False if they have not by the deadline: calls that do not run by then
  // never will.
  bool wait_for_all(std::chrono::steady_clock::time_point deadline);
  // Waits for a call that runs; to be called only after wait_for_all() has returned false.
  void wait_for_running();

  // --- For threads that run calls: ProgressThread.

  Lock lock() { return Lock(mutex_); }
  bool has_ready_call(const Lock&) const;  // whether the next call is ready, and no other call is running
  bool has_work(const Lock& lock) const;   // whether a call is ready, or the progress thread has to end
  // Whether calls that are in the queue have to end before `var` is ready.
  bool is_needed_for(const Lock&, const Var& var) const;
  std::uint64_t pushed(const Lock&) const { return pushed_; }
  std::uint64_t ended(const Lock&) const { return ended_; }

  // wait() and poll() block until the progress thread is notified: wait() without a limit, poll() for
  // `interval` at most. During poll() the thread is not notified of calls that a waiting thread is likely to
  // run.
  void wait(Lock& lock) { has_work_.wait(lock); }
  void poll(Lock& lock, std::chrono::microseconds interval);
  void notify() { has_work_.notify_one(); }

  // Takes the ready call, and the calls behind it that run with it as one, out of the queue. The caller runs
  // them, then calls end().
  std::vector<std::shared_ptr<Call>> take(const Lock& lock);
  void end(std::span<const std::shared_ptr<Call>> calls);
  // Called when the progress thread ends. Empties the queue, refuses calls that become ready later, and
  // unlocks. Returns the calls that were ready; the caller completes their ops.
  std::vector<std::shared_ptr<Call>> stop(Lock& lock);

 private:
  void check_open(const Lock&) const;
  bool all_ended(const Lock&) const { return ended_ == pushed_ && !running_; }
  bool is_in_next_run(const Call& call) const;
  void bring_ready_forward(const Lock&);
  void notify_ended(const Lock& lock);
  void notify_if_work(const Lock& lock);
  void notify_unless_polling(const Lock& lock);

  const Var& all_;
  const Backend& backend_;
  const std::size_t fusion_bytes_;
  std::mutex mutex_;                  // guards all members below; see the top of this file
  std::condition_variable has_work_;  // notified when the progress thread may have work
  // Notified when calls have ended, for the other threads that wait for this.
  std::condition_variable call_ended_;
  int waiting_ = 0;                          // number of threads that wait for call_ended_
  std::deque<std::shared_ptr<Call>> calls_;  // enqueued calls in the order in which they run
  std::uint64_t pushed_ = 0, ended_ = 0;  // numbers of calls pushed and ended, those on the device included
  std::uint64_t to_be_enqueued_ = 0;      // pushed calls that ops have yet to enqueue
  std::uint64_t on_device_ = 0;           // device calls that have not ended
  // Number of calls at the front that run as one, since all ranks have them ready.
  std::size_t run_as_one_ = 1;
  bool running_ = false;   // whether a thread runs a call
  bool polling_ = false;   // whether the progress thread is in poll()
  bool captured_ = false;  // true: a call was captured, and ops enqueue all later calls
  bool closed_ = false;
  bool timed_out_ = false;  // whether wait_for_all() has timed out: calls that do not run by now never will
  bool stopped_ = false;    // whether the progress thread has ended
};

}  // namespace heddle::comm_detail
