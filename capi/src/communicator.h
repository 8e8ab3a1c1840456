// What stands behind a heddle_communicator.
#pragma once

#include <heddle/communicator.h>

#include "array_handle.h"

namespace heddle::c {

// Destroyed from below: the communicator before its engine.
struct Rank {
  std::shared_ptr<Engine> engine;
  std::shared_ptr<Communicator> communicator;
};

}  // namespace heddle::c
