// The state behind a Communicator: its engine and back end, the queue of its calls, and the thread that runs them.
//
// A call is enqueued when it is made, and pushes an op on its arrays. The op marks the call as ready. The progress
// thread, or a thread that waits for the call, runs it on the back end and completes the op.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <source_location>

#include "communicator/call.h"
#include "communicator/call_queue.h"
#include "communicator/call_runner.h"
#include "communicator/progress_thread.h"
#include "core/backend.h"

namespace heddle::comm_detail {

// The engine, the back end and the calls of a communicator. Thread-safe. Its only mutex is that of its
// CallQueue.
class CommState final : public ProgressSource, public std::enable_shared_from_this<CommState> {
 public:
  static std::shared_ptr<CommState> make(Engine& engine, std::unique_ptr<Backend> backend,
                                         const BackendOptions& options);
  ~CommState() override;

  Engine& engine() const;  // throws Error once the engine is destroyed
  Backend& backend() const { return *backend_; }
  const BackendOptions& options() const { return options_; }
  const Var& var() const { return calls_var_; }

  // Pushes an op that reads `in` and mutates `out`; each of them may be undefined. Returns at once.
  void push(Collective what, const NDArray& in, const NDArray& out, std::source_location where);
  // Pushes an op on arrays of the back end's device, which runs on the device's stream.
  void push_on_device(Collective what, const NDArray& in, const NDArray& out, std::source_location where);
  // Runs a call whose pointers to memory are set; no op may use that memory. Blocks until the call has run,
  // after all earlier calls. Throws the call's error.
  void run_now(Collective& what, std::source_location where);
  // Blocks until all calls made so far have ended. Throws the error of calls that mutate no array, such as a
  // barrier.
  void wait(std::source_location where);
  // A communicator belongs to the process that made it: in a child of that process check_process throws CommError.
  bool in_child() const;
  void check_process() const;
  // From now on no call can be made. Blocks until all calls have ended. After options().timeout a running call fails
  // at once, and a call that waits for its arrays fails when they are computed.
  void close() noexcept;

  void progress_until(const Var& var, const std::atomic<std::uint32_t>& over) noexcept override;

 private:
  CommState(Engine& engine, std::unique_ptr<Backend> backend, const BackendOptions& options);
  friend struct EnqueueCall;
  friend struct MarkCallReady;
  friend struct DeviceOp;
  // The access list of a call's op, without the communicator's var. The op mutates `result` if there is no
  // `out`.
  static Access access_of(const Collective& what, const NDArray& in, const NDArray& out, const Var& result);
  void push(const std::shared_ptr<Call>& call, std::source_location where);
  void run_directly(Collective& what);
  void wait_for_calls(std::source_location where);  // waits for the calls made so far; throws WouldDeadlock
  void wait_in_close(std::chrono::steady_clock::time_point deadline);
  void end_calls_by(std::chrono::steady_clock::time_point deadline);

  std::unique_ptr<Backend> backend_;
  const BackendOptions options_;
  const int process_;
  // The var that all calls read. An op that mutates it runs after the calls before it and before those after
  // it.
  const Var calls_var_;
  const Var order_;    // mutated by the ops that enqueue calls, which keeps these ops in order
  const Var outcome_;  // mutated by calls without an array that could carry their error
  std::once_flag device_order_made_;
  // Mutated by the calls on the device, of all communicators that use the device.
  std::shared_ptr<const Var> device_order_;
  CallQueue queue_;
  CallRunner runner_;
  ProgressThread progress_thread_;  // the last member, since it uses the members above
};

}  // namespace heddle::comm_detail
