// The dependency rule: ops that touch a var run as if one at a time in push order, but consecutive reads together.
//
// enter() locks all vars of the op at once, in address order, so that a push is atomic across its vars: for any two
// ops one comes first on every var that they share, and no cycle can form. The op's sequence number is drawn inside
// those locks, so sequence order is an order in which the ops could have run one by one.
#pragma once

#include <memory>

#include "op_node.h"

namespace heddle::detail {

// Queues op on all its vars. True if it may run now.
bool enter(OpNode& op);

// Gives back the vars of a finished op, poisons those it mutates with `failure` or clears them if it is null, and
// appends the ops that may run now to `ready`.
void leave(OpNode& op, const std::shared_ptr<const Failure>& failure, ReadyList& ready);

// True if the wait op behind `target` cannot run before `from` ends. The caller sees to it that `from` does not end
// meanwhile; so no op that the search meets can end either, and none of its memory goes away. Takes time linear in
// those ops. With `abandon`, the waiter gives
// up if there is one: its op no longer counts as waiting.
bool depends(WaitState& target, OpNode& from, bool abandon);

}  // namespace heddle::detail
