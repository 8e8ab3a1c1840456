// The dependency rule: ops that touch a var run as if one at a time in push order, but consecutive reads together.
//
// Ops are entered one after the other, in the order in which they were submitted; so for any two ops one comes first on
// every var that they share, and no cycle can form. They leave in any order, from any thread.
#pragma once

#include <memory>

#include "op/op_node.h"

namespace heddle::detail {

// Queues op on all its vars. True if it may run now. One thread at a time.
bool enter(OpNode& op);

// Gives back the vars of a finished op, poisons those it mutates with `failure` or clears them if it is null, and
// appends the ops that may run now to `ready`.
void leave(OpNode& op, const std::shared_ptr<const Failure>& failure, ReadyList& ready);

// The last handle of var is gone and all ops on it are entered: deletes it now, or when the last of them leaves.
void drop_var(VarState& var) noexcept;

}  // namespace heddle::detail
