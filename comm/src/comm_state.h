// What stands behind a Communicator: its calls in their order, and the thread that carries them out.
//
// A call gets its place in the order when it is made. What then runs is an op on its arrays, which says that they are
// there; the thread takes the calls in their order, each when it is there, so that no op waits for the one before it.
// A call in a graph gets its place from an op of its own each time that the graph is launched.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "backend.h"

namespace heddle::detail {

struct Call {
  Collective what;  // without memory until the arrays are there
  NDArray in{}, out{};
  std::optional<Completion> completion{};
  bool there = false, forgotten = false;  // under CommState's mutex
};

// Thread-safe.
class CommState : public std::enable_shared_from_this<CommState> {
 public:
  CommState(Engine& engine, std::unique_ptr<Backend> backend, const BackendOptions& options);
  ~CommState();

  Engine& engine() const { return *engine_; }
  Backend& backend() const { return *backend_; }
  const BackendOptions& options() const { return options_; }
  const Var& var() const { return var_; }

  // `in` is read and `out` mutated, if they are defined.
  void push(Collective what, const NDArray& in, const NDArray& out, std::source_location where);
  // On the calling thread, after all calls before; blocks and throws.
  void run_now(Collective& what);
  void wait();
  bool in_child() const;  // of a fork of the process that made it
  // No more calls; those that are left are done when this returns, or fail: after options().timeout what is under way,
  // after twice that what still waits for its arrays, when they are there.
  void close() noexcept;

 private:
  friend struct PlaceCall;
  friend struct StartCall;
  bool place_now(const std::shared_ptr<Call>& call);
  void forget(const std::shared_ptr<Call>& call, bool placed, bool to_be_placed);
  static void refuse(Call& call);
  bool next_is_there() const;  // under mutex_
  bool can_run_now() const { return !busy_ && calls_.empty() && unplaced_ == 0; }
  void call_ended();  // under mutex_
  void await_next(std::unique_lock<std::mutex>& lock);
  void place(const std::shared_ptr<Call>& call, bool launched);
  void there(const std::shared_ptr<Call>& call);
  void work();
  void carry(Call& call);
  void check_process() const;

  Engine* const engine_;
  const std::unique_ptr<Backend> backend_;
  const BackendOptions options_;
  const int process_;  // the child of a fork has no part in what its parent is a rank of
  const Var var_;      // read by all calls: what mutates it comes after those before and before those after
  const Var order_;    // mutated by the ops that give captured calls their places
  const Var outcome_;  // mutated by calls that have no array to leave an error on
  // Guards all below. No op is pushed, ended or completed while it is held, nor an array let go of: the engine then starts
  // what is ready, which may be calls of this communicator.
  std::mutex mutex_;
  std::condition_variable next_;             // for the thread: the next call may be there
  std::condition_variable done_;             // for others: a call has ended
  int waiting_ = 0;                          // for done_
  std::deque<std::shared_ptr<Call>> calls_;  // in their order
  std::uint64_t pushed_ = 0, ended_ = 0;     // calls
  std::uint64_t unplaced_ = 0;               // pushed, but without a place so far
  bool busy_ = false;                        // somebody carries a call
  bool captured_ = false;  // some call gets its place when a graph is launched: all do so by an op
  bool closing_ = false;
  bool given_up_ = false;  // closing has taken too long: what is not there by now is not waited for
  bool gone_ = false;      // the thread has ended: calls that come later fail
  std::thread thread_;
};

}  // namespace heddle::detail
