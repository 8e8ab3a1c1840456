// Collectives of ranks that see each other's memory: everybody writes once and reads once, and no rank waits for a chain
// of others. Reductions have one order, a balanced tree over the ranks, ((0+1)+(2+3))+..., whatever the size: so their
// results do not depend on how data was cut into pieces.
//
// Up to kSmall bytes everybody reads all ranks' data and reduces for itself, which costs one meeting. Larger data is cut
// into one slice a rank; each rank reduces its slice of all ranks' data ("reduce-scatter by owner, then all-gather";
// Thakur, Rabenseifner, Gropp 2005, without the messages). Data that others cannot reach goes through the boards' stages,
// a window at a time, with one window on its way in while another one is on its way out.
#pragma once

#include <memory>
#include <vector>

#include "host/host_group.h"

namespace heddle::comm_detail {

// Where rank's memory that it calls `address` is for the caller; null if it cannot be reached.
class Reach {
 public:
  virtual ~Reach() = default;
  virtual std::byte* find(int rank, std::uint64_t address, std::size_t bytes) const = 0;
  // What this rank would call it, for others; 0 if they cannot reach it.
  virtual std::uint64_t publish(const std::byte* data, std::size_t bytes) const = 0;
};

// One thread at a time.
class HostCollectives {
 public:
  HostCollectives(HostGroup& group, const Reach& reach);
  // All kinds but send, recv and all_to_all. The call's sequence is one more than that of the last one.
  void run(const Collective& call);
  // Only finds out whether all have called the same, and have something to bring: throws otherwise.
  void agree(const Collective& call) {
    arrive(call, nullptr, 0);
    meet(call);
  }

 private:
  struct Slices;
  void arrive(const Collective& call, const std::byte* small, std::size_t bytes);
  void meet(const Collective& call);
  [[noreturn]] void mismatch(const Collective& call, int other);
  [[noreturn]] void remote_failure(const Collective& call);
  const Arrival& arrival(int rank, const Collective& call) const;
  const std::byte* small_of(int rank, const Collective& call, std::size_t bytes) const;
  void step();                              // this rank has done one more than before
  void all_have_done(std::uint64_t steps);  // blocks until it is so

  void small_call(const Collective& call);
  void reduce_small(const Collective& call);
  void reduce_reachable(const Collective& call, const std::vector<std::byte*>& in,
                        const std::vector<std::byte*>& out);
  void reduce_staged(const Collective& call);
  void spread_staged(const Collective& call);
  bool reachable(const Collective& call, std::vector<std::byte*>& in, std::vector<std::byte*>& out) const;
  // to = the tree over all ranks of parts[rank], count elements each.
  void combine_tree(std::byte* to, std::vector<const std::byte*>& parts, std::size_t count, Combine combine,
                    std::size_t element);

  HostGroup& group_;
  const Reach& reach_;
  const int rank_, ranks_;
  std::uint64_t steps_ = 0, stage_turn_ = 0;
  std::vector<std::byte> scratch_;  // of combine_tree
  std::vector<const std::byte*> parts_;
};

}  // namespace heddle::comm_detail
