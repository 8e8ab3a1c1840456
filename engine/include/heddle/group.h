// Group: ops that are given up together, because somebody cancels them or because it has become too late for them.
//
//   heddle::Group request;
//   request.set_deadline(std::chrono::steady_clock::now() + 50ms);
//   engine.push(f, {.mutate = {a}, .group = request});
//   request.cancel();  // what has not started yet fails with Cancelled
#pragma once

#include <chrono>
#include <memory>

namespace heddle {

namespace detail {
struct GroupState;
}

// A shared handle; copies name the same group. Belongs to no engine. Thread-safe like a shared_ptr: calls on the group
// from any thread, assignments to one handle from one.
class Group {
 public:
  Group();  // a new one

  // Ops that have not started fail with Cancelled when their turn comes, also those pushed later. For good. Running ops
  // go on, but may ask RunContext::cancelled(). Of those that poison no var wait_all reports one a group.
  void cancel() noexcept;

  // The same from that moment on. A later call replaces it; time_point::max() removes it.
  void set_deadline(std::chrono::steady_clock::time_point deadline) noexcept;

  // Cancelled or overdue now.
  bool cancelled() const noexcept;

  const std::shared_ptr<detail::GroupState>& state() const { return state_; }  // for the engine

 private:
  std::shared_ptr<detail::GroupState> state_;
};

// What Access::group is written with: none, or a Group that lives until the push returns.
struct GroupRef {
  GroupRef() = default;
  GroupRef(const Group& group) : state(&group.state()) {}
  const std::shared_ptr<detail::GroupState>* state = nullptr;
};

}  // namespace heddle
