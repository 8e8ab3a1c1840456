// A wait whose error says which op has failed and what was skipped, as that of heddle_wait.
#pragma once

#include <heddle/engine.h>

namespace heddle::c {

// Throws the error that poisons var, and what Engine::wait throws; `call` is the function of the C ABI.
void wait(Engine& engine, const Var& var, const char* call);

}  // namespace heddle::c
