// Collectives of ranks that share memory: each rank writes once and reads once, and no rank waits for a chain of
// others. Reductions add in one order, a balanced tree over the ranks, ((0+1)+(2+3))+..., for every size, so that
// results do not depend on how the data are cut into pieces.
//
// Up to kSmall bytes each rank reads the data of all ranks and reduces them itself, which takes one synchronisation.
// Larger data are cut into one slice per rank, and each rank reduces its slice of all ranks' data ("reduce-scatter by
// owner, then all-gather"; Thakur, Rabenseifner, Gropp 2005, without the messages). Data outside of shared memory are
// copied through the staging buffers of the rank blocks, a window at a time; one window is copied in while another one
// is copied out.
#pragma once

#include <memory>
#include <vector>

#include "host/host_group.h"

namespace heddle::comm_detail {

// Translates addresses of memory that ranks share.
class PeerMemory {
 public:
  virtual ~PeerMemory() = default;
  // The memory whose shared_address() on `rank` is `address`, as this process has mapped it.
  virtual std::byte* find(int rank, std::uint64_t address, std::size_t bytes) const = 0;
  // The address under which the other ranks find this rank's memory; 0 if it is not shared.
  virtual std::uint64_t shared_address(const std::byte* data, std::size_t bytes) const = 0;
};

// One thread at a time.
class HostCollectives {
 public:
  HostCollectives(HostGroup& group, const PeerMemory& peer_memory);
  // Runs a call of any kind but send, recv and all_to_all. The call's sequence number is one more than that
  // of the last call.
  void run(const Collective& call);
  // Blocks until all ranks have arrived. Throws if ranks have made different calls, or if a rank has no data
  // to send.
  void agree(const Collective& call) {
    arrive(call, nullptr, 0);
    await_arrivals(call);
  }

 private:
  struct Windows;
  class StagedReduction;
  void arrive(const Collective& call, const std::byte* small, std::size_t bytes);
  void await_arrivals(const Collective& call);
  [[noreturn]] void mismatch(const Collective& call, int other);
  [[noreturn]] void remote_failure(const Collective& call);
  const Arrival& arrival(int rank, const Collective& call) const;
  const std::byte* small_of(int rank, const Collective& call, std::size_t bytes) const;
  void step();                              // announces that this rank has done one more step
  void all_have_done(std::uint64_t steps);  // blocks until all ranks have done so many steps

  void small_call(const Collective& call);
  void reduce_small(const Collective& call);
  void reduce_reachable(const Collective& call, const std::vector<std::byte*>& in,
                        const std::vector<std::byte*>& out);
  void reduce_staged(const Collective& call);
  void copy_staged(const Collective& call);
  bool reachable(const Collective& call, std::vector<std::byte*>& in, std::vector<std::byte*>& out) const;
  // Sets `to` to the tree reduction of parts[rank] over all ranks, of `count` elements each.
  void combine_tree(std::byte* to, std::vector<const std::byte*>& parts, std::size_t count, Combine combine,
                    std::size_t element);

  HostGroup& group_;
  const PeerMemory& peer_memory_;
  const int rank_, ranks_;
  std::uint64_t steps_ = 0, stage_turn_ = 0;
  std::vector<std::byte> scratch_;  // used by combine_tree
  std::vector<const std::byte*> parts_;
};

}  // namespace heddle::comm_detail
