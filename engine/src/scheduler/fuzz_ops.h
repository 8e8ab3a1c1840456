// The ops of the fuzz scheduler: which are ready, and which come before others. The queues of vars only lead from an op
// to those behind it; here a wait inside an op finds the ops that it needs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <unordered_map>
#include <vector>

#include "op/op_node.h"

namespace heddle::detail {

// The ops that one wait inside an op needs, named by their sequence numbers.
struct NeededOps {
  // Whether one of the needed ops cannot end before the wait does: it is the op that waits, or an op whose
  // function is below the waiting one on the stack.
  bool suspended = false;
  std::uint64_t inside = ~std::uint64_t{0};  // sequence number of the op in which the thread waits
  // The value of Op::is_called for the op `inside` before the wait. It is false if an op of a graph waits
  // whose launch, the op `inside`, runs on although its function has returned.
  bool was_called = false;
  std::vector<std::uint64_t> ops;    // needed ops that had not ended when the wait began
  std::vector<NeededOps*> also;      // for each of `ops`: the outer wait that needs it too, or null
  std::vector<std::uint64_t> ready;  // needed ops that became ready; some have run since
};

// Knows ops from when they are entered until they release their vars. Not thread-safe.
class FuzzOps {
 public:
  void enter(const OpNode& op);      // op was queued on its vars
  void end(std::uint64_t op);        // op has released its vars
  void forget(const VarState& var);  // var has no handle any more
  void called(const OpNode& op);     // op's function is called
  void returned(std::uint64_t op);   // op's function has returned

  void add_ready(OpNode* op);
  const std::vector<OpNode*>& ready() const { return ready_; }
  OpNode* take(std::size_t at);  // removes and returns ready()[at]
  // Removes and returns a needed op that is ready, chosen at random; null if none is ready.
  OpNode* take_needed(NeededOps& needed, std::mt19937_64& random);

  // begin_wait(): call before the wait for var in the op `inside` is queued. end_wait(): call when it is
  // over. Nested waits end in reverse order.
  void begin_wait(const VarState& var, const OpNode& inside, NeededOps& needed);
  void end_wait(NeededOps& needed);

 private:
  static constexpr std::uint64_t kNoOp = ~std::uint64_t{0};
  static constexpr std::size_t kNowhere = ~std::size_t{0};
  struct Op {
    std::vector<std::uint64_t> after;  // ops directly before this one; some have ended
    NeededOps* needed_by = nullptr;    // the innermost wait that needs this op
    std::size_t at = kNowhere;         // index in ready_; kNowhere: not ready
    bool is_called = false;
  };
  struct Use {
    std::uint64_t writer = kNoOp;        // the last op that mutates the var
    std::vector<std::uint64_t> readers;  // ops that have read the var since `writer`; some have ended
    std::size_t trim_at = 64;            // size of `readers` at which readers that have ended are removed
  };
  Op* find(std::uint64_t op);
  void add_reader(Use& use, std::uint64_t op);

  std::unordered_map<std::uint64_t, Op> ops_;
  std::unordered_map<const VarState*, Use> uses_;
  std::vector<OpNode*> ready_;
};

}  // namespace heddle::detail
