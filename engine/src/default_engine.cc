#include <memory>
#include <mutex>
#include <optional>

#include <heddle/engine.h>

namespace heddle {
namespace {

struct Default {
  std::mutex mutex;  // guards options and the making of the engine
  std::optional<EngineOptions> options;
  std::unique_ptr<Engine> engine;
};

Default& the_default() {
  static Default instance;
  return instance;
}

thread_local Engine* scoped = nullptr;

}  // namespace

Engine& default_engine() {
  Default& state = the_default();
  std::lock_guard guard(state.mutex);
  if (!state.engine) {
    state.engine =
        std::make_unique<Engine>(state.options ? *state.options : EngineOptions::from_environment());
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
