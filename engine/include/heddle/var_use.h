// The engine of a var and its current use, found without a wait. For types that hand out the data that a var
// stands for.
#pragma once

#include <atomic>
#include <cstdint>

#include <heddle/var.h>

namespace heddle {

class Engine;

enum class VarUse : std::uint8_t { none, read, mutate };  // mutate: the op may read the data too

// The access to var that the calling thread's op has declared. That op is the thread's innermost op of var's
// engine or, inside a launch of a graph, the op of the graph. VarUse::none: the op has not declared var, or
// the thread is in no op of that engine.
VarUse use_by_this_op(const Var& var);

// Whether all ops pushed so far that read or mutate var have ended, and no error poisons it. Any thread.
// False also if that can be found out only by waiting.
bool is_idle(const Var& var);

// The address of the engine that made var; the pointer becomes null when the engine is destroyed. The
// reference is valid as long as a handle on var exists. Throws InvalidArgument for an empty var.
const std::atomic<Engine*>& engine_of(const Var& var);
// Blocks until every op that mutates var is done, and rethrows the error that poisons it, as Engine::wait does. The engine that
// made var may have been destroyed.
void wait_on(const Var& var);
// Whether the engine takes no more ops: it is being destroyed, was shut down at exit, or was made before a fork().
bool has_ended(const Engine& engine);

}  // namespace heddle
