#include <heddle/call_site.h>

#include "core/thread_state.h"

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

// The address of an op alone does not tell: a thread can be in one op twice, for that of a graph's launch stands for its ops.
bool CallSite::of_innermost_op() const noexcept {
  const detail::ThreadState& now = detail::this_thread_state;
  return core_ == now.core && op_ == now.op && outer_ == now.outer;
}

}  // namespace heddle
