#include "op/var_registry.h"

#include <cstdint>

namespace heddle::detail {

std::size_t VarRegistry::shard_of(const VarState& var) {
  // Fibonacci hashing, since allocators place vars at regular distances.
  return (reinterpret_cast<std::uintptr_t>(&var) / alignof(VarState) * 0x9E3779B97F4A7C15u) >> 60;
}

void VarRegistry::add(VarState& var) {
  const std::size_t shard_index = shard_of(var);
  Shard& shard = shards_[shard_index];
  std::lock_guard guard(shard.lock);
  std::size_t slot = shard.vars.size();
  if (shard.frees > 0) {
    slot = shard.free[--shard.frees];
    shard.vars[slot] = &var;
  } else {
    shard.free.resize(slot + 1);
    shard.vars.push_back(&var);
  }
  var.number = slot * kShards + shard_index;
}

void VarRegistry::remove(VarState& var) noexcept {
  Shard& shard = shards_[var.number % kShards];
  std::lock_guard guard(shard.lock);
  shard.vars[var.number / kShards] = nullptr;
  shard.free[shard.frees++] = var.number / kShards;
}

}  // namespace heddle::detail
