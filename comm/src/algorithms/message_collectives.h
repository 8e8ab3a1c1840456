// Collectives over a transport: chooses the algorithm and runs it.
#pragma once

#include <heddle/cost_model.h>

#include "algorithms/algorithms.h"

namespace heddle::comm_detail {

// One thread at a time.
class MessageCollectives {
 public:
  // agree_first: calls in which some ranks only send begin with a barrier, which detects mismatches; false if the
  // caller has compared the calls already. cost, the same on all ranks: the costs by which algorithms are chosen.
  MessageCollectives(Transport& transport, bool reproducible, bool agree_first, const NetworkCost& cost = {});
  // Runs calls of all kinds. Throws what Transport::transfer throws, and RemoteFailure unless the call has failed on
  // this rank. Sets call.record.ahead of an all_reduce of at least one element to the minimum over all ranks, since
  // its result depends on messages of every rank.
  void run(Collective& call);
  // Whether the call may be fused with others: a small all_reduce, whose result has the same bits alone and fused.
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
  const bool two_levels_;  // whether there are several hosts, and one has several ranks
};

// Cuts an array into consecutive parts whose lengths are `counts`.
std::vector<Part> parts_of(const std::vector<std::int64_t>& counts);

}  // namespace heddle::comm_detail
