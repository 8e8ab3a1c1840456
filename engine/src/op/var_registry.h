// All vars of an engine that are alive, in which describe_pending() finds the ops that wait. Pushing or
// running an op does not access the registry.
#pragma once

#include <array>
#include <cstddef>
#include <mutex>
#include <vector>

#include "op/var_state.h"

namespace heddle::detail {

class VarRegistry {
 public:
  void add(VarState& var);  // sets var.number, which no other live var of the engine has
  void remove(VarState& var) noexcept;

  // Calls visit with each var, which is not deleted during the call. visit may take the var's lock.
  template <class Visit> void for_each(Visit visit) {
    for (Shard& shard : shards_) {
      std::lock_guard guard(shard.lock);
      for (VarState* var : shard.vars) {
        if (var) visit(*var);
      }
    }
  }

 private:
  // A table of pointers rather than a list linked through the vars, since other threads write the vars' cache
  // lines.
  struct alignas(64) Shard {
    SpinLock lock;  // guards all below
    std::vector<VarState*> vars;
    std::vector<std::size_t> free;  // has the capacity of `vars`, so that remove() allocates nothing
    std::size_t frees = 0;
  };
  static constexpr std::size_t kShards = 16;
  static std::size_t shard_of(const VarState& var);
  std::array<Shard, kShards> shards_;
};

}  // namespace heddle::detail
