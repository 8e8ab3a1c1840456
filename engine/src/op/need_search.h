// Finds the ready ops that a wait for a var needs: those that mutate the var, and those that must end before
// these. Searches the ops behind a ready op, within a budget.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "op/op_node.h"

namespace heddle::detail {

class NeedSearch {
 public:
  explicit NeedSearch(const VarState& var) : var_(var) {}

  // From now on only ops with sequence numbers below `before` count: those that were entered before the wait.
  void limit(std::uint64_t before) { before_ = before; }
  bool limited() const { return before_ != kNoLimit; }
  // From now on the waiting thread leaves the needed ops to other threads.
  void leave_to_others() { left_to_others_ = true; }
  bool left_to_others() const { return left_to_others_; }

  // Whether op mutates the var. Makes no search.
  bool mutates(const OpNode& op) const;
  // Whether the wait needs op. False also where the budget does not suffice to tell. Preconditions: op is entered, and neither
  // runs nor ends during the call; so no op that comes after it can end, and its memory stays valid.
  bool needs(OpNode& op);

 private:
  static constexpr std::uint64_t kNoLimit = ~std::uint64_t{0};
  static constexpr int kMostSeen = 96;        // most ops looked at in one wait
  static constexpr std::size_t kTable = 128;  // a power of 2, larger than kMostSeen
  static constexpr int kDeepest = 64;         // longest chain of ops that is followed
  static constexpr int kMostFollowers = 256;  // most queued accesses looked at in one wait

  struct Seen {
    std::uint64_t key = 0;  // the op's sequence + 1; 0: this entry is free
    bool needed = false;
  };
  Seen& find(std::uint64_t sequence);
  bool leads_to_wait(OpNode& op, int depth);
  bool any_follower_needed(const AccessNode& access, int depth);

  const VarState& var_;
  std::uint64_t before_ = kNoLimit;
  bool left_to_others_ = false;
  int seen_count_ = 0, followers_ = 0;
  // Hash table of results. They hold for the whole wait, since the ops between an entered op and the wait do
  // not change.
  std::array<Seen, kTable> seen_;
};

}  // namespace heddle::detail
