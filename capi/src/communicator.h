// The object of a heddle_communicator handle.
#pragma once

#include <heddle/communicator.h>

#include "array_handle.h"

namespace heddle::c {

// One rank of a communicator. The members' order matters: the communicator is destroyed before its engine.
struct Rank {
  std::shared_ptr<Engine> engine;
  std::shared_ptr<Communicator> communicator;
};

}  // namespace heddle::c
