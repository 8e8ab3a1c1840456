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
  virtual void started(const OpNode& op, int worker) = 0;  // before its function is called
  virtual void returned(const OpNode& op) = 0;             // the function of an asynchronous op has returned
  virtual void completed(const OpNode& op) noexcept = 0;   // before it releases its vars
  virtual void kept_back(const OpNode& op) = 0;            // until work on streams before it is done
  virtual void resumes(const OpNode& op) noexcept = 0;     // that work is done
  virtual void visit(
      Pending& pending) = 0;  // shows all ops that have started and not ended, or are kept back
};

}  // namespace heddle::detail
