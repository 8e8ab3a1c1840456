// How a var is used at this moment, told without a wait: for those who hand out the data that it stands for.
#pragma once

#include <cstdint>

#include <heddle/var.h>

namespace heddle {

enum class VarUse : std::uint8_t { none, read, mutate };  // mutate: and perhaps read

// What the innermost op of var's engine that the calling thread is in has declared of var; none outside ops.
VarUse use_by_this_op(const Var& var);

// Whether all ops pushed so far that read or mutate var have ended, and no error poisons it. Any thread. False also where only
// a wait would tell, which then may return at once.
bool is_idle(const Var& var);

}  // namespace heddle
