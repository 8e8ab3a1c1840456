// A wait that returns the error of the var with its path, for interfaces that throw no exception.
#pragma once

#include <memory>

#include <heddle/var.h>

#include "op/failure.h"
#include "op/wait_state.h"

namespace heddle::detail {

struct EngineCore;

struct WaitOutcome {
  bool over = false;  // false: the deadline passed before the wait was over
  FailurePtr poison;  // the error of the var, marked as seen by a wait; null: none
};

// As Engine::wait, or as Engine::wait_until with a deadline other than kNever. Throws what these throw, except for the
// error of the var.
WaitOutcome wait_for(EngineCore* core, const Var& var, Deadline deadline);

}  // namespace heddle::detail
