// The line of the user's program that an op names in errors, traces and reports: that of the outermost library call.
//
//   NDArray twice(const NDArray& x, Where where = Where::current()) {
//     const CallSite site(where);
//     return add(x, x);  // its op names the line that called twice()
//   }
#pragma once

#include <source_location>

namespace heddle {

namespace detail {
struct EngineCore;
struct OpNode;
struct ThreadState;
}  // namespace detail

// The source line of a call. Public functions that push ops have a last parameter
// `Where where = Where::current()`.
using Where = std::source_location;

// While a CallSite lives, its thread counts as being in a library call made at `where`. Of nested CallSites
// the outermost counts. An op that runs on the thread meanwhile starts without a CallSite. Ops pushed by
// array_push and gradients recorded by record() name the line of the CallSite that counts. Engine::push does
// not look for one.
class [[nodiscard]] CallSite {
 public:
  explicit CallSite(Where where) noexcept : CallSite(where, false) {}
  ~CallSite();
  CallSite(const CallSite&) = delete;
  CallSite& operator=(const CallSite&) = delete;

  // A CallSite that counts although it is not the outermost. For work on behalf of an earlier call, such as the
  // computation of its gradient.
  static CallSite on_behalf_of(Where where) noexcept { return CallSite(where, true); }

  // The line of the CallSite that counts on the calling thread; outside of any library call, `otherwise`.
  static Where current(Where otherwise = Where::current()) noexcept;
  // The line that errors name: that of the CallSite that counts; in an op outside of any library call, where
  // the op was pushed. Line 0: neither is known.
  static Where of_error() noexcept;
  // The CallSite that counts on the calling thread; null outside of any library call.
  static const CallSite* counting() noexcept;

 private:
  CallSite(Where where, bool always) noexcept;
  bool of_innermost_op() const noexcept;
  static thread_local constinit const CallSite* current_;

  const Where where_;
  const CallSite* const previous_;  // value of current_ before this CallSite; the destructor restores it
  // The op that the thread was in when this CallSite was made: members of its ThreadState of the same names.
  const detail::EngineCore* const core_;
  const detail::OpNode* const op_;
  const detail::ThreadState* const outer_;
};

}  // namespace heddle
