// Group: ops that are cancelled together, by a call or because their deadline has passed.
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

// A shared handle; copies name the same group. Belongs to no engine. Thread-safe like a shared_ptr: any
// thread may use the group, one thread at a time assigns to a handle.
class Group {
 public:
  Group();  // makes a new group

  // Ops that have not started fail with Cancelled when they become ready, also those pushed later. It cannot
  // be undone. Running ops go on, but may ask RunContext::cancelled(). wait_all reports one op of each group
  // among the cancelled ops that poison no var.
  void cancel() noexcept;

  // The group counts as cancelled from `deadline` on. A later call replaces the deadline; time_point::max() removes it.
  void set_deadline(std::chrono::steady_clock::time_point deadline) noexcept;

  // True if the group was cancelled or its deadline has passed.
  bool cancelled() const noexcept;

  const std::shared_ptr<detail::GroupState>& state() const { return state_; }  // used by the engine

 private:
  std::shared_ptr<detail::GroupState> state_;
};

// The type of Access::group: no group, or a Group that lives until the push returns.
struct GroupRef {
  GroupRef() = default;
  GroupRef(const Group& group) : state(&group.state()) {}
  const std::shared_ptr<detail::GroupState>* state = nullptr;
};

}  // namespace heddle
