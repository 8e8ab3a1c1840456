// What stands behind a Communicator: its calls in their order, and the thread that carries them out.
//
// A call is two ops. The first mutates the communicator's var alone, runs at once, and gives the call its place: so the
// order of the calls is that of the pushes. The second reads and mutates the arrays, and says that they are there. The
// thread takes the calls in their order, each when it is there; no op waits for the one before it to be done.
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
  bool placed = false, there = false;  // under CommState's mutex
};

// Thread-safe.
class CommState : public std::enable_shared_from_this<CommState> {
 public:
  CommState(Engine& engine, std::unique_ptr<Backend> backend, const BackendOptions& options);
  ~CommState();

  Engine& engine() const { return *engine_; }
  Backend& backend() const { return *backend_; }
  const BackendOptions& options() const { return options_; }
  const Var& var() const { return order_; }

  // Pushes both ops. `in` is read and `out` mutated, if defined; `through` is read too: what out held counts.
  void push(Collective what, const NDArray& in, const NDArray& out, std::source_location where);
  // On the calling thread, after all calls before; blocks and throws.
  void run_now(Collective& what);
  void wait();
  // No more calls; those that are left are done when this returns, or have failed after options().timeout.
  void close() noexcept;

 private:
  friend struct PlaceCall;
  friend struct StartCall;
  void place(const std::shared_ptr<Call>& call);
  void there(const std::shared_ptr<Call>& call);
  void work();
  void carry(Call& call);
  void check_process() const;

  Engine* const engine_;
  const std::unique_ptr<Backend> backend_;
  const BackendOptions options_;
  const int process_;  // the child of a fork has no part in what its parent is a rank of
  const Var order_;    // mutated by the first op of each call
  const Var users_;    // read by the second: a wait for all of them is a mutation
  const Var outcome_;  // mutated by calls that have no array to leave an error on
  std::mutex mutex_;   // guards all below
  std::condition_variable news_;
  std::deque<std::shared_ptr<Call>> calls_;  // in their order
  std::uint64_t pushed_ = 0, ended_ = 0;     // calls
  std::uint64_t unplaced_ = 0;               // pushed, but without a place so far
  bool busy_ = false;                        // somebody carries a call
  bool closing_ = false;
  std::thread thread_;
};

}  // namespace heddle::detail
