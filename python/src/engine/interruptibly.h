// Calls that may block for long: Ctrl-C ends them on the main thread.
#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <future>
#include <memory>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>

#include <heddle/check.h>
#include <heddle/default_engine.h>

#include "engine/engines.h"
#include "interpreter.h"

namespace heddle::python {

// The interval at which waits of the main thread check for signals.
inline constexpr std::chrono::milliseconds kSlice{50};

// Whether interruptibly() runs a call on another thread, so that Ctrl-C ends the wait for it. Inside an op a
// call stays on the op's thread, since its errors name the op.
inline bool is_interruptible() { return is_main_thread() && !check::running_op(); }

// Runs call() without the GIL; needs the GIL itself. If this is the main thread, another thread runs call(),
// with the same current engine, while the main thread checks for signals. If a signal handler raises, its
// error is thrown, and call() goes on in the background. So `call` must own all that it uses.
//
// A call that changes objects of the program in several steps takes part: it looks at `*given_up` between them, and ends by throwing
// once it is true. The error of the signal handler is thrown when the call has ended, or when a second handler raises.
template <class Call>
std::invoke_result_t<Call&> interruptibly(Call call, std::shared_ptr<std::atomic<bool>> given_up = nullptr) {
  if (!is_interruptible()) {
    const ReleaseGil released;
    return call();
  }
  using Result = std::invoke_result_t<Call&>;
  auto work = [call = std::move(call), engine = entered_engine()]() mutable -> Result {
    std::optional<EngineScope> scope;
    if (engine) scope.emplace(*engine);
    return call();
  };
  std::promise<Result> promise;
  auto result = promise.get_future();
  // `work` is destroyed before the promise is set: when the caller goes on, nothing that `work` owned is
  // left.
  std::thread([promise = std::move(promise), work = std::optional(std::move(work))]() mutable {
    try {
      if constexpr (std::is_void_v<Result>) {
        (*work)();
        work.reset();
        promise.set_value();
      } else {
        Result value = (*work)();
        work.reset();
        promise.set_value(std::move(value));
      }
    } catch (...) {
      work.reset();
      promise.set_exception(std::current_exception());
    }
  }).detach();
  std::exception_ptr raised;
  for (bool over = false; !over;) {
    {
      const ReleaseGil released;
      over = result.wait_for(kSlice) == std::future_status::ready;
    }
    if (over) break;
    try {
      check_signals();
    } catch (...) {
      if (!given_up || raised) throw;
      raised = std::current_exception();
      given_up->store(true);
    }
  }
  if (raised) std::rethrow_exception(raised);
  return result.get();
}

}  // namespace heddle::python
