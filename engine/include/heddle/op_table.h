// How closures of any type become ops that the engine runs without knowing the type.
#pragma once

#include <cstddef>
#include <exception>
#include <type_traits>
#include <vector>

#include <heddle/op.h>

namespace heddle {
namespace detail {

inline constexpr std::size_t kClosureAlign = alignof(std::max_align_t);

// How the engine runs and destroys a closure whose type it does not know.
struct OpTable {
  bool async;
  void (*run)(void* closure, RunContext& context, OpNode* op);
  // Destroys the closure in place; null if its destructor is trivial.
  void (*destroy)(void* closure) noexcept;
  void (*destroy_heap)(void* closure) noexcept;  // deletes a closure made by new
  bool extra = async;                            // whether the op has an OpExtra
  // Tells the closure that the op is not going to run, see skipper(); null: the closure has no such function.
  void (*skipped)(void* closure, const std::exception_ptr& why) noexcept = nullptr;
  bool immediate = false;
  std::exception_ptr (*outcome)(void* closure, const std::exception_ptr& failure) noexcept = nullptr;
  // Whether the work that `run` would enqueue now may be enqueued from a recording, see replayer(); null: it may never.
  bool (*replays)(void* closure, std::vector<const void*>& depends_on) = nullptr;
};

// An asynchronous op whose function object has `static constexpr bool immediate = true` needs no worker: the thread
// that pushes it, or completes the last op that it waits for, runs it at once. This is for functions of about a
// microsecond that only announce that the op's vars are granted, such as a collective's. Such a function must not
// block, nor take a lock that some thread holds while it pushes, ends or waits for ops or releases a var.
template <class F> constexpr bool is_immediate() {
  if constexpr (requires { F::immediate; }) {
    return F::immediate;
  } else {
    return false;
  }
}

// If a function object has a member skipped(why), the engine calls it when the op is not going to run, because a var
// that it reads is poisoned or its group was cancelled. This is for ops that something outside the engine waits for,
// such as another process for this one's part of a collective.
template <class Op, class F> constexpr auto skipper() -> void (*)(void*, const std::exception_ptr&) noexcept {
  if constexpr (requires(F & fn, const std::exception_ptr& why) { fn.skipped(why); }) {
    return
        [](void* self, const std::exception_ptr& why) noexcept { static_cast<Op*>(self)->fn.skipped(why); };
  } else {
    return nullptr;
  }
}

// If the function object of an op on a stream has a member outcome(failure), the engine calls it when the op's work has
// run, and takes what it returns for the op's error. `failure` is the error that the engine knows of, of this op or of
// a var that it reads. This is for work whose errors the device does not report.
template <class Op, class F>
constexpr auto ender() -> std::exception_ptr (*)(void*, const std::exception_ptr&) noexcept {
  if constexpr (requires(F & fn, const std::exception_ptr& failure) { fn.outcome(failure); }) {
    return [](void* self, const std::exception_ptr& failure) noexcept {
      return static_cast<Op*>(self)->fn.outcome(failure);
    };
  } else {
    return nullptr;
  }
}

// If the function object of an op on a stream has a member replays(depends_on), a graph may record the work that the op
// enqueues, and enqueue it again in later launches without calling the function. The member appends to the list all that
// the work depends on and that may change, such as the addresses of memory; launches with the same list may have the
// recorded work. False: not in this launch. The function must do nothing but enqueue, and its work must not be able to
// fail unless the whole device does. Called as the function is, once that was called in an earlier launch.
template <class Op, class F> constexpr auto replayer() -> bool (*)(void*, std::vector<const void*>&) {
  if constexpr (requires(F & fn, std::vector<const void*> & depends_on) { fn.replays(depends_on); }) {
    return [](void* self, std::vector<const void*>& depends_on) {
      return static_cast<Op*>(self)->fn.replays(depends_on);
    };
  } else {
    return nullptr;
  }
}

struct NewOp {
  OpNode* node;
  void* closure;
};

template <class F> struct SyncOp {
  F fn;
  static void run(void* self, RunContext& context, OpNode*) {
    F& fn = static_cast<SyncOp*>(self)->fn;
    if constexpr (std::is_invocable_v<F&, RunContext&>) {
      fn(context);
    } else {
      static_assert(std::is_invocable_v<F&>, "an op is callable as fn() or fn(RunContext&)");
      fn();
    }
  }
  static void destroy(void* self) noexcept { static_cast<SyncOp*>(self)->~SyncOp(); }
  static void destroy_heap(void* self) noexcept { delete static_cast<SyncOp*>(self); }
  static constexpr OpTable table{false,        run,   std::is_trivially_destructible_v<F> ? nullptr : destroy,
                                 destroy_heap, false, skipper<SyncOp, F>()};
};

template <class F> struct AsyncOp {
  F fn;
  static void run(void* self, RunContext& context, OpNode* op) {
    static_assert(std::is_invocable_v<F&, RunContext&, Completion>,
                  "an asynchronous op is callable as fn(RunContext&, Completion)");
    static_cast<AsyncOp*>(self)->fn(context, Completion(op));
  }
  static void destroy(void* self) noexcept { static_cast<AsyncOp*>(self)->~AsyncOp(); }
  static void destroy_heap(void* self) noexcept { delete static_cast<AsyncOp*>(self); }
  static constexpr OpTable table{true,
                                 run,
                                 std::is_trivially_destructible_v<F> ? nullptr : destroy,
                                 destroy_heap,
                                 true,
                                 skipper<AsyncOp, F>(),
                                 is_immediate<F>()};
};

}  // namespace detail
}  // namespace heddle
