// The hooks of an array.
#pragma once

#include <atomic>
#include <utility>
#include <vector>

#include <heddle/autograd.h>

namespace heddle::operators_detail {

// An append-only list: a hook, or another thread, may add one while others run.
class Hooks {
 public:
  Hooks() = default;
  ~Hooks() {
    for (const One* one = last_.load(std::memory_order_acquire); one;) delete std::exchange(one, one->before);
  }
  Hooks(Hooks&& other) noexcept : last_(other.last_.exchange(nullptr, std::memory_order_acq_rel)) {}
  Hooks& operator=(Hooks&&) = delete;

  bool empty() const { return !last_.load(std::memory_order_acquire); }
  void add(GradientHook hook) {
    auto* one = new One{std::move(hook), last_.load(std::memory_order_relaxed)};
    while (!last_.compare_exchange_weak(one->before, one, std::memory_order_acq_rel)) continue;
  }
  // The hooks in the order in which they were added. They live as long as this list.
  std::vector<const GradientHook*> all() const {
    std::vector<const GradientHook*> hooks;
    for (const One* one = last_.load(std::memory_order_acquire); one; one = one->before)
      hooks.insert(hooks.begin(), &one->hook);
    return hooks;
  }

 private:
  struct One {
    GradientHook hook;
    const One* before;
  };
  std::atomic<const One*> last_{nullptr};
};

}  // namespace heddle::operators_detail
