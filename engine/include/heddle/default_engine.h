// The default engine, and the current engine of a thread: the engines of calls that name none.
#pragma once

namespace heddle {

class Engine;
struct EngineOptions;

// The process's engine, made at first use and finished at exit.
Engine& default_engine();

// Options for the default engine, instead of the environment's. Throws Error once the default engine exists, and
// InvalidArgument for bad options.
void set_default_engine_options(EngineOptions options);

// The engine that new arrays of this thread belong to: the innermost EngineScope's, else the default engine.
Engine& current_engine();

// Makes `engine` the current engine of the calling thread while the scope lives.
class EngineScope {
 public:
  explicit EngineScope(Engine& engine);
  ~EngineScope();
  EngineScope(const EngineScope&) = delete;
  EngineScope& operator=(const EngineScope&) = delete;

 private:
  Engine* previous_;
};

}  // namespace heddle
