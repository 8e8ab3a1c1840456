// Calls that may block for long: Ctrl-C ends them on the main thread.
#pragma once

#include <chrono>
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
  auto task = std::make_shared<std::packaged_task<std::invoke_result_t<Call&>()>>(std::move(call));
  auto result = task->get_future();
  std::thread([task, engine = entered_engine()]() mutable {
    std::optional<EngineScope> scope;
    if (engine) scope.emplace(*engine);
    (*task)();
    task.reset();
  }).detach();
  task.reset();
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
