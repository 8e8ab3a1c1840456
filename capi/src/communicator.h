// The object of a heddle_communicator handle.
#pragma once

#include <heddle/communicator.h>

#include "array_handle.h"

namespace heddle::c {

// Members are destroyed from the last to the first: the communicator before its engine.
struct Rank {
  std::shared_ptr<Engine> engine;
  std::shared_ptr<Communicator> communicator;
};

}  // namespace heddle::c
