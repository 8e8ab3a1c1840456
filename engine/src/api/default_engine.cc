#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

#include <heddle/engine.h>

#include "base/fork.h"
#include "core/core.h"

namespace heddle {
namespace {

struct Default {
  detail::ForkMutex mutex{detail::ForkMutex::AroundEngines{}};  // guards all below
  std::optional<EngineOptions> options;
  Engine* engine = nullptr;  // never freed: arrays may be destroyed, and waited for, after it is shut down
};

Default& the_default() {
  static Default& immortal = *new Default;
  return immortal;
}

struct AtExit {
  ~AtExit() {
    Default& state = the_default();
    std::unique_lock guard(state.mutex);
    Engine* engine = state.engine;
    guard.unlock();  // unlocked before shut_down(), since the last ops may call default_engine()
    detail::this_thread_ends = true;
    engine->core().shut_down();
  }
};

// Waits for all ops at exit, before static objects are destroyed: ops may use statics of a library that were
// made after AtExit, and are destroyed before it. A DrainFirst is thread-local, since thread-local objects of
// the thread that calls exit() are destroyed before all statics. Other thread-local objects of that thread
// may be gone by then. So ops must not run on that thread, and another one waits.
struct DrainFirst {
  ~DrainFirst() {
    Default& state = the_default();
    std::unique_lock guard(state.mutex);
    Engine* engine = state.engine;
    guard.unlock();
    if (engine->core().forked() || engine->core().current_op()) return;
    try {
      std::thread([engine] { engine->core().scheduler().wait_all(); }).join();
    } catch (const std::system_error&) {
      engine->core().scheduler().wait_all();  // no other thread can be started
    }
  }
};

thread_local Engine* scoped = nullptr;

}  // namespace

Engine& default_engine() {
  Default& state = the_default();
  std::lock_guard guard(state.mutex);
  if (!state.engine || state.engine->core().forked()) {
    state.engine = new Engine(state.options ? *state.options : EngineOptions::from_environment());
    static AtExit at_exit;
    thread_local DrainFirst drain_first;
  }
  return *state.engine;
}

void set_default_engine_options(EngineOptions options) {
  detail::check_options(options);
  Default& state = the_default();
  std::lock_guard guard(state.mutex);
  if (state.engine) {
    throw Error(
        "set_default_engine_options: the default engine exists already; call it before anything uses that");
  }
  state.options = options;
}

Engine& current_engine() { return scoped ? *scoped : default_engine(); }

EngineScope::EngineScope(Engine& engine) : previous_(std::exchange(scoped, &engine)) {}
EngineScope::~EngineScope() { scoped = previous_; }

}  // namespace heddle
