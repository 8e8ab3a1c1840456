// Calls that may block for long: Ctrl-C ends them on the main thread.
#pragma once

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

#include "engines.h"
#include "interpreter.h"

namespace heddle::python {

// How long a wait of the main thread goes on without a look for signals.
inline constexpr std::chrono::milliseconds kSlice{50};

// Whether Ctrl-C ends waits of this thread. Inside an op the caller waits itself, so that errors name the op.
inline bool is_interruptible() { return is_main_thread() && !check::running_op(); }

// Calls call() without the GIL, with which it is called. The main thread lets another one make the call, with the same current
// engine, and looks for signals meanwhile. If a handler raises, that is thrown, and the call goes on behind: so it owns all
// that it uses.
template <class Call> std::invoke_result_t<Call&> interruptibly(Call call) {
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
  // What the call owns is gone when its caller goes on.
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
  for (bool over = false; !over;) {
    {
      const ReleaseGil released;
      over = result.wait_for(kSlice) == std::future_status::ready;
    }
    if (!over) check_signals();
  }
  return result.get();
}

}  // namespace heddle::python
