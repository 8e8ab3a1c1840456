// The access list of an op, checked and merged.
#pragma once

#include <cstdint>
#include <string>

#include <heddle/call_site.h>
#include <heddle/engine.h>
#include <heddle/var.h>

#include "core/core.h"
#include "op/op_node.h"

namespace heddle::detail {

// Throws InvalidArgument that begins with `who`: var is null, or of another engine.
[[noreturn]] void throw_bad_var(const VarState* var, const std::string& who, Where where);

// Throws InvalidArgument that begins with `who` if var is empty or of another engine.
inline void check_var(const Var& var, const EngineCore* core, const char* who, Where where = Where()) {
  if (!var || var.state()->core != core) throw_bad_var(var.state(), who, where);
}

// Writes a node for each var of the access list, and returns how many: repeats are merged, and a var in both lists is mutated
// and read. `nodes` has room for both lists. op: the op that the nodes belong to; null for a prepared op.
std::uint32_t fill_accesses(AccessNode* nodes, const Access& access, OpNode* op) noexcept;

}  // namespace heddle::detail
