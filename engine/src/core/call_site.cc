#include <heddle/call_site.h>

#include "core/thread_state.h"
#include "op/op_node.h"

namespace heddle {

constinit thread_local const CallSite* CallSite::current_ = nullptr;

CallSite::CallSite(Where where, bool always) noexcept
    : where_(where),
      previous_(current_),
      core_(detail::this_thread_state.core),
      op_(detail::this_thread_state.op),
      outer_(detail::this_thread_state.outer) {
  if (always || !previous_ || !previous_->of_innermost_op()) current_ = this;
}

CallSite::~CallSite() { current_ = previous_; }

const CallSite* CallSite::counting() noexcept {
  return current_ && current_->of_innermost_op() ? current_ : nullptr;
}

Where CallSite::current(Where otherwise) noexcept {
  const CallSite* const site = counting();
  return site ? site->where_ : otherwise;
}

Where CallSite::of_error() noexcept {
  if (const CallSite* const site = counting()) return site->where_;
  for (const detail::ThreadState* frame = &detail::this_thread_state; frame; frame = frame->outer) {
    if (frame->op) return frame->op->where;
  }
  return Where();
}

// Comparing op_ is not enough. A thread can be in one op twice, since the op of a graph's launch stands for
// all ops of the graph.
bool CallSite::of_innermost_op() const noexcept {
  const detail::ThreadState& now = detail::this_thread_state;
  return core_ == now.core && op_ == now.op && outer_ == now.outer;
}

}  // namespace heddle
