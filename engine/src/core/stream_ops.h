// The order between ops and work on streams: what an op waits for before it runs or is issued, and the fences
// that an issued op leaves.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "op/failure_ptr.h"
#include "op/op_node.h"
#include "op/wait_state.h"

namespace heddle::detail {

class FenceSet;
class FenceState;
class Streams;
using Fence = std::shared_ptr<FenceState>;
struct Dependency;
struct EngineCore;
struct StreamLane;

// Thread-safe.
class StreamOps {
 public:
  explicit StreamOps(EngineCore& core) : core_(core) {}
  ~StreamOps();
  StreamOps(const StreamOps&) = delete;
  StreamOps& operator=(const StreamOps&) = delete;

  // Null until the first stream is made: an engine without streams pays for this load only.
  Streams* streams() const { return streams_.load(std::memory_order_acquire); }
  Streams& need_streams();

  // Called with a ready op. True: the op is for a stream, and has been issued or queued there; or it is
  // deferred until work on streams is done, and OpScheduler::resume() is called then. False: the op may run
  // on the CPU now.
  [[gnu::cold]] bool take_over(OpNode* op, int worker) noexcept;
  // For an op on the CPU in a launch of a graph, which may have to come after work on streams. True: it has to, and `resume`
  // is called when that work is done, perhaps at once. False: the op may run now.
  bool defer_in_launch(OpNode& op, std::function<void()> resume) noexcept;
  // Issues an op on its stream, or queues it there, or defers it.
  void issue_in_turn(OpNode* op, int worker) noexcept;
  // The error of a var that op reads, from the CPU or a stream; null: none. Call only while op holds its
  // vars.
  FailurePtr failure_of_reads(const OpNode& op) const;
  // The names of the streams whose work the deferred op waits for, separated by commas.
  std::string streams_before(const OpNode& op) const;
  // Completes a wait when the last writes of these fences are done.
  [[gnu::cold]] void announce_after(FenceSet& fences, const std::shared_ptr<WaitState>& state) noexcept;

  // Throws WouldDeadlock if the calling thread must not wait: it is in the function of an op on a stream, of
  // any engine, and a wait would keep the stream's gate closed; or it does the work of a stream.
  static void check_may_wait();

 private:
  bool is_lost(const OpNode& op) const;
  void defer(OpNode* op, std::vector<Dependency>&& after) noexcept;
  void resume(OpNode* op) noexcept;
  void issue(OpNode* op, int worker) noexcept;
  Fence enqueue(OpNode* op, int worker, const std::vector<Dependency>& after, trace::Tick start);
  void complete_unissued(OpNode* op, FailurePtr&& failure) noexcept;
  FailurePtr outcome(OpNode* op, std::exception_ptr own, const std::vector<FailurePtr>& inherited) noexcept;

  EngineCore& core_;
  std::atomic<Streams*> streams_{nullptr};
};

std::string stream_name(const OpNode& op);  // the stream on which op is issued; "" on the CPU

}  // namespace heddle::detail
