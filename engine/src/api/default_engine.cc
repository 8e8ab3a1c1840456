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
  Engine* engine = nullptr;  // shut down at exit, never freed: arrays may be destroyed, and waited for, later
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
    guard.unlock();  // the last ops may call default_engine()
    detail::this_thread_ends = true;
    engine->core().shut_down();
  }
};

// The last ops may use statics that a library made after AtExit was, and that die before it. What belongs to the
// thread that calls exit() dies before all statics; and some of it has died already, so that a scheduler which runs
// ops inside a wait must do so on another thread.
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
      engine->core().scheduler().wait_all();  // there is no thread to be had
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
