#include <mutex>
#include <optional>

#include <heddle/engine.h>

#include "core.h"
#include "fork.h"

namespace heddle {
namespace {

struct Default {
  detail::ForkMutex mutex;  // guards all below
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
    engine->core().shut_down();
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
  }
  return *state.engine;
}

void set_default_engine_options(EngineOptions options) {
  Default& state = the_default();
  std::lock_guard guard(state.mutex);
  if (state.engine) throw Error("set_default_engine_options: the default engine exists already");
  state.options = options;
}

Engine& current_engine() { return scoped ? *scoped : default_engine(); }

EngineScope::EngineScope(Engine& engine) : previous_(std::exchange(scoped, &engine)) {}
EngineScope::~EngineScope() { scoped = previous_; }

}  // namespace heddle
