// Collectives over any transport: which algorithm, and what it needs around it.
#pragma once

#include <heddle/cost_model.h>

#include "algorithms/algorithms.h"

namespace heddle::comm_detail {

// One thread at a time.
class MessageCollectives {
 public:
  // agree_first: calls in which some ranks only send begin with a barrier, which finds out whether all have called the
  // same; it is not needed where that has been found out. cost, the same on all ranks: what algorithms are chosen by.
  MessageCollectives(Transport& transport, bool reproducible, bool agree_first, const NetworkCost& cost = {});
  // All kinds. Throws what Transport::transfer throws, and RemoteFailure, but not for a call that has failed here.
  // Sets call.record.ahead to the least of all ranks', if it is an all_reduce of at least one element: its result depends
  // on something of each rank, so that something has come from each.
  void run(Collective& call);
  // Small all_reduces that come to the same bits whether they go alone or as one with others.
  bool may_fuse(const Collective& call, Algorithm wanted) const;

 private:
  void dispatch(const Collective& call);
  void all_reduce(const Collective& call);
  void reduce(const Collective& call);
  void reduce_scatter(const Collective& call);
  void all_gather(const Collective& call);
  void all_to_all(const Collective& call);
  void reduce_in_place(const Operand& operand, Algorithm wanted, bool fused = false);
  Algorithm choose(std::size_t bytes, Algorithm wanted, bool fused) const;
  Algorithm fastest(std::size_t bytes, bool fused) const;

  Transport& transport_;
  const bool reproducible_, agree_first_;
  const NetworkCost cost_;
  const bool two_levels_;  // several hosts, and several ranks on one of them
};

// Parts that lie one behind the other.
std::vector<Part> parts_of(const std::vector<std::int64_t>& counts);

}  // namespace heddle::comm_detail
