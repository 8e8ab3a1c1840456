// The object of a heddle_trainer handle.
#pragma once

#include <heddle/c/trainer.h>
#include <heddle/trainer.h>

#include "locked_store.h"

namespace heddle::c {

// Members are destroyed from the last to the first: the trainer before its store and their engine.
struct LockedTrainer {
  const std::shared_ptr<LockedStore> store;  // the store's mutex guards the trainer
  Trainer trainer;
};

// Parameters during a call, all of one engine. Keeps the engine alive.
struct NamedParameters {
  // Throws for parameters of another engine than `engine`; null: of the first parameter's.
  NamedParameters(const heddle_named_array* parameters, std::size_t count, std::shared_ptr<Engine> engine,
                  const char* call);
  std::shared_ptr<Engine> engine;  // null if there are no parameters and none was given
  std::vector<Parameter> parameters;
};

}  // namespace heddle::c
