// What is known of a var: how it is used at this moment, told without a wait, and its engine. For those who hand out the
// data that it stands for.
#pragma once

#include <atomic>
#include <cstdint>

#include <heddle/var.h>

namespace heddle {

class Engine;

enum class VarUse : std::uint8_t { none, read, mutate };  // mutate: and perhaps read

// What the innermost op of var's engine that the calling thread is in has declared of var; in a launch, the op of the graph;
// none outside ops.
VarUse use_by_this_op(const Var& var);

// Whether all ops pushed so far that read or mutate var have ended, and no error poisons it. Any thread. False also where only
// a wait would tell, which then may return at once.
bool is_idle(const Var& var);

// Holds the address of the engine that made var, and null once that is destroyed. Lives as long as a handle on var. Throws
// InvalidArgument for an empty var.
const std::atomic<Engine*>& engine_of(const Var& var);
// Blocks until every op that mutates var is done, and rethrows the error that poisons it, as Engine::wait does. The engine that
// made var may have been destroyed.
void wait_on(const Var& var);
// Whether the engine takes no more ops: it is being destroyed, was shut down at exit, or was made before a fork().
bool has_ended(const Engine& engine);

}  // namespace heddle
