// The dependency rule: ops that touch a var run as if one at a time in push order, but consecutive reads together.
//
// Ops are entered one after the other, in the order in which they were submitted. So of any two ops the same one comes
// first on every var that they share, and no cycle can form. Ops end in any order, on any thread.
#pragma once

#include <memory>

#include "op/op_node.h"

namespace heddle::detail {

// Queues op's accesses on all its vars. True if op may run now. One thread at a time.
bool enter(OpNode& op);

// Releases the vars of a finished op and appends the ops that may run now to `ready`. The vars that op
// mutates are poisoned with `failure`, or cleared if it is null.
void release_accesses(OpNode& op, const FailurePtr& failure, ReadyList& ready);

// Call when the last handle of var is gone and all ops on it are entered. Deletes var, now or when its last op ends.
void delete_var(VarState& var) noexcept;

}  // namespace heddle::detail
