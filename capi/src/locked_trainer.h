// The object of a heddle_trainer handle.
#pragma once

#include <heddle/c/trainer.h>
#include <heddle/trainer.h>

#include "locked_store.h"

namespace heddle::c {

// A trainer and its store. The members' order matters: the trainer is destroyed before the store and its
// engine.
struct LockedTrainer {
  const std::shared_ptr<LockedStore> store;  // its mutex also guards the trainer
  Trainer trainer;
};

// The named parameters that a call was given, all of one engine. Keeps the engine alive during the call.
struct NamedParameters {
  // Throws if a parameter belongs to another engine than `engine`, which may be null: then the engine of the
  // first parameter is used.
  NamedParameters(const heddle_named_array* parameters, std::size_t count, std::shared_ptr<Engine> engine,
                  const char* call);
  std::shared_ptr<Engine> engine;  // null if there is no parameter and the constructor was given no engine
  std::vector<Parameter> parameters;
};

}  // namespace heddle::c
