// What stands behind a Communicator: its calls in their order, and the thread that carries them out.
//
// A call gets its place in the order when it is made. What then runs is an op on its arrays, which says that they are
// there; the thread takes the calls in their order, each when it is there, so that no op waits for the one before it.
// A call in a graph gets its place from an op of its own each time that the graph is launched.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "communicator/call.h"
#include "core/backend.h"

namespace heddle::comm_detail {

// Thread-safe.
class CommState final : public ProgressSource, public std::enable_shared_from_this<CommState> {
 public:
  static std::shared_ptr<CommState> make(Engine& engine, std::unique_ptr<Backend> backend,
                                         const BackendOptions& options);
  ~CommState() override;

  Engine& engine() const { return *engine_; }
  Backend& backend() const { return *backend_; }
  const BackendOptions& options() const { return options_; }
  const Var& var() const { return var_; }

  // `in` is read and `out` mutated, if they are defined.
  void push(Collective what, const NDArray& in, const NDArray& out, std::source_location where);
  // The same on arrays of the back end's device, as an op on its stream.
  void push_on_device(Collective what, const NDArray& in, const NDArray& out, std::source_location where);
  // `what` has its memory, which nobody else touches. After all calls before; blocks and throws.
  void run_now(Collective& what, std::source_location where);
  void wait(std::source_location where);
  // The child of a fork has no part in what its parent is a rank of.
  bool in_child() const;
  void check_process() const;  // throws CommError there
  // No more calls; those that are left are done when this returns, or fail: after options().timeout what is under way at
  // once, what still waits for its arrays when they are there.
  void close() noexcept;

  // The thread need not wake up for calls that somebody waits for anyway.
  void progress_until(const Var& var, const std::atomic<std::uint32_t>& over) noexcept override;

 private:
  CommState(Engine& engine, std::unique_ptr<Backend> backend, const BackendOptions& options);
  friend struct PlaceCall;
  friend struct StartCall;
  friend struct DeviceOp;
  // The lists of a call's op, but for the communicator's var. `result` is mutated where there is no `out`.
  static Access access_of(const Collective& what, const NDArray& in, const NDArray& out, const Var& result);
  void push(const std::shared_ptr<Call>& call, std::source_location where);
  bool take_turn();
  void abandon(Call& call);
  void run_in_turn(Collective& what);
  bool place_now(const std::shared_ptr<Call>& call);
  void forget(const std::shared_ptr<Call>& call, bool placed, bool to_be_placed);
  void refuse(Call& call) const;
  bool next_is_there() const;  // under mutex_
  void device_call_ended();
  void call_ended();                            // under mutex_
  bool must_come_before(const Var& var) const;  // under mutex_
  void wake_unless_trusting();                  // under mutex_
  bool nap(std::unique_lock<std::mutex>& lock);
  bool spin(std::unique_lock<std::mutex>& lock);
  void carry_next(std::unique_lock<std::mutex>& lock);
  void await_next(std::unique_lock<std::mutex>& lock);
  void place(const std::shared_ptr<Call>& call, bool launched);
  void there(const std::shared_ptr<Call>& call);
  void skipped(const std::shared_ptr<Call>& call, const std::string& why);
  void work();
  bool all_done() const { return ended_ == pushed_ && !busy_; }  // under mutex_
  void end_calls_until(std::chrono::steady_clock::time_point deadline);
  void carry(std::span<const std::shared_ptr<Call>> calls);
  std::exception_ptr failed_with(const std::exception_ptr& error);
  std::exception_ptr run(std::span<const std::shared_ptr<Call>> calls);
  static void complete(Call& call, const std::exception_ptr& error);

  Engine* const engine_;
  std::unique_ptr<Backend> backend_;
  const BackendOptions options_;
  const int process_;
  const Var var_;      // read by all calls: what mutates it comes after those before and before those after
  const Var order_;    // mutated by the ops that give captured calls their places
  const Var outcome_;  // mutated by calls that have no array to leave an error on
  const std::exception_ptr destroyed_;   // what calls fail with that have not begun when this closes
  const std::chrono::microseconds nap_;  // of the thread, when it trusts those who wait
  // Guards all below. No op is pushed, ended or completed while it is held, nor an array let go of: the engine then starts
  // what is ready, which may be calls of this communicator.
  std::mutex mutex_;
  std::condition_variable next_;             // for the thread: the next call may be there
  std::condition_variable done_;             // for others: a call has ended
  int waiting_ = 0;                          // for done_
  std::deque<std::shared_ptr<Call>> calls_;  // in their order
  std::uint64_t pushed_ = 0, ended_ = 0;     // calls
  std::uint64_t unplaced_ = 0;               // pushed, but without a place so far
  std::shared_ptr<const Var>
      device_order_;             // mutated by calls on the device, of all communicators that use it
  std::uint64_t on_device_ = 0;  // pushed as ops on the device's stream, and not ended
  bool busy_ = false;            // somebody carries a call
  std::size_t together_ = 1;     // of the next calls, all there, that go as one on all ranks
  int by_waiters_ = 0;           // times that somebody who waited carried, and not the thread
  bool napping_ = false;         // the thread looks again soon, unasked
  bool captured_ = false;        // some call gets its place when a graph is launched: all do so by an op
  bool closing_ = false;
  bool given_up_ = false;         // closing has taken too long: what is not there by now is not waited for
  bool gone_ = false;             // the thread has ended: calls that come later fail
  std::exception_ptr broken_;     // by this: every later call fails with the very same error
  std::vector<std::byte> fused_;  // memory of calls that go as one, of whoever is busy
  std::thread thread_;
};

}  // namespace heddle::comm_detail
