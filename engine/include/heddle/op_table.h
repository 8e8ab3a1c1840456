// How closures of any type become ops that the engine runs without knowing the type.
#pragma once

#include <cstddef>
#include <exception>
#include <type_traits>

#include <heddle/op.h>

namespace heddle {
namespace detail {

inline constexpr std::size_t kClosureAlign = alignof(std::max_align_t);

// How the engine runs and destroys a closure whose type it does not know.
struct OpTable {
  bool async;
  void (*run)(void* closure, RunContext& context, OpNode* op);
  void (*destroy)(void* closure) noexcept;       // in place; null: nothing to do
  void (*destroy_heap)(void* closure) noexcept;  // and frees it
  bool extra = async;                            // the op has an OpExtra
  void (*skipped)(void* closure, const std::exception_ptr& why) noexcept = nullptr;  // null: need not know
  bool immediate = false;
  std::exception_ptr (*outcome)(void* closure, const std::exception_ptr& failure) noexcept = nullptr;
};

// An asynchronous op whose function object says `static constexpr bool immediate = true` starts on whatever thread finds
// that it may, at once, also if all workers are busy: for functions of a microsecond that tell others that the op's vars
// are there, as a collective's is. They must not block, nor wait for locks that anybody holds while it pushes ops, ends
// them, waits for them or lets go of a var.
template <class F> constexpr bool is_immediate() {
  if constexpr (requires { F::immediate; }) {
    return F::immediate;
  } else {
    return false;
  }
}

// A function object with a member skipped(why) is told when its op is not going to run: what it reads has failed, or its
// group was cancelled. For ops that somebody else waits for too, as another process does for its part of a collective.
template <class Op, class F> constexpr auto skipper() -> void (*)(void*, const std::exception_ptr&) noexcept {
  if constexpr (requires(F & fn, const std::exception_ptr& why) { fn.skipped(why); }) {
    return
        [](void* self, const std::exception_ptr& why) noexcept { static_cast<Op*>(self)->fn.skipped(why); };
  } else {
    return nullptr;
  }
}

// An op on a stream whose function object has a member outcome(failure) is asked how it went when its work has run, which a
// device cannot always say: `failure` is what is known, of this op or of what it has read. What it returns is the op's error.
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
