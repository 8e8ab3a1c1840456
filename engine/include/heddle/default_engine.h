// Which engine is meant where none is named.
#pragma once

namespace heddle {

class Engine;
struct EngineOptions;

// The process's engine, made at first use and finished at exit.
Engine& default_engine();

// Options for the default engine, instead of the environment's. Throws Error once that exists, InvalidArgument for bad ones.
void set_default_engine_options(EngineOptions options);

// The engine that new arrays of this thread belong to: the innermost EngineScope's, else the default engine.
Engine& current_engine();

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
