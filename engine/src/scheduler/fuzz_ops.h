// The ops of the fuzz scheduler: which are ready, and which come before which. The queues of vars only lead from an op to those
// behind it; here a wait inside an op finds the ops that it needs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <unordered_map>
#include <vector>

#include "op/op_node.h"

namespace heddle::detail {

// What one wait inside an op needs. Ops are named by their sequence numbers.
struct NeededOps {
  // One cannot end before the wait does: it is the op that waits, or in the middle of its function below the wait.
  bool suspended = false;
  std::uint64_t inside = ~std::uint64_t{0};  // the op that waits
  bool was_called = false;                   // that op, before the wait: that of a launch may have returned
  std::vector<std::uint64_t> ops;            // all that had not ended when the wait began
  std::vector<NeededOps*> also;              // of each of them: the outer wait that needs it too, or null
  std::vector<std::uint64_t> ready;          // became ready; some have run since
};

// Knows ops from when they are entered until they release their vars. Not thread-safe.
class FuzzOps {
 public:
  void enter(const OpNode& op);      // queued on its vars
  void end(std::uint64_t op);        // has released them
  void forget(const VarState& var);  // has no handle any more
  void called(const OpNode& op);     // its function runs
  void returned(std::uint64_t op);   // and does no longer

  void add_ready(OpNode* op);
  const std::vector<OpNode*>& ready() const { return ready_; }
  OpNode* take(std::size_t at);                                     // out of ready()
  OpNode* take_needed(NeededOps& needed, std::mt19937_64& random);  // null if none is ready

  // Call before the wait for var inside that op is queued, and when it is over. Waits end in the reverse of the order in which they begin.
  void begin_wait(const VarState& var, const OpNode& inside, NeededOps& needed);
  void end_wait(NeededOps& needed);

 private:
  static constexpr std::uint64_t kNoOp = ~std::uint64_t{0};
  static constexpr std::size_t kNowhere = ~std::size_t{0};
  struct Op {
    std::vector<std::uint64_t> after;  // the ops that it directly comes after; some have ended
    NeededOps* needed_by = nullptr;    // the innermost wait that needs it
    std::size_t at = kNowhere;         // in ready_
    bool is_called = false;
  };
  struct Use {
    std::uint64_t writer = kNoOp;        // the last op that mutates the var
    std::vector<std::uint64_t> readers;  // since then; some have ended
    std::size_t trim_at = 64;            // size of readers
  };
  Op* find(std::uint64_t op);
  void add_reader(Use& use, std::uint64_t op);

  std::unordered_map<std::uint64_t, Op> ops_;
  std::unordered_map<const VarState*, Use> uses_;
  std::vector<OpNode*> ready_;
};

}  // namespace heddle::detail
