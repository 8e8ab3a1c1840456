// What stands behind a heddle_trainer.
#pragma once

#include <heddle/c/trainer.h>
#include <heddle/trainer.h>

#include "locked_store.h"

namespace heddle::c {

// Destroyed from below: the trainer before its store and their engine.
struct LockedTrainer {
  const std::shared_ptr<LockedStore> store;  // whose mutex guards the trainer
  Trainer trainer;
};

// Parameters during a call, all of one engine, which lives as long.
struct NamedParameters {
  // Throws for those of another engine than `engine`, which may be null.
  NamedParameters(const heddle_named_array* parameters, std::size_t count, std::shared_ptr<Engine> engine,
                  const char* call);
  std::shared_ptr<Engine> engine;  // null if there are no parameters and none was given
  std::vector<Parameter> parameters;
};

}  // namespace heddle::c
