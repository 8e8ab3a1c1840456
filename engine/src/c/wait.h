// A wait whose error names the failed op and the skipped ones, as that of heddle_wait does.
#pragma once

#include <heddle/engine.h>

namespace heddle::c {

// Throws the error that poisons var, and what Engine::wait throws; `call` is the function of the C ABI.
void wait(Engine& engine, const Var& var, const char* call);

}  // namespace heddle::c
