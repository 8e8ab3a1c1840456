// Calls that the core makes for each op that it runs, see diagnostics/watch.h.
#pragma once

#include "op/op_node.h"

namespace heddle::detail {

class Pending;

// Called by the threads that run ops. The op cannot end during a call.
class OpObserver {
 public:
  virtual ~OpObserver() = default;
  virtual void stop() noexcept = 0;                        // the engine is shut down: no call follows
  virtual void started(const OpNode& op, int worker) = 0;  // op's function is about to be called
  virtual void returned(const OpNode& op) = 0;             // the function of an asynchronous op has returned
  virtual void completed(const OpNode& op) noexcept = 0;   // op is about to release its vars
  virtual void deferred(const OpNode& op) = 0;  // op is deferred until earlier work on streams is done
  virtual void resumes(const OpNode& op) noexcept = 0;  // the work that a deferred op waited for is done
  // Shows all ops that have started and not ended, or are deferred.
  virtual void visit(Pending& pending) = 0;
};

}  // namespace heddle::detail
