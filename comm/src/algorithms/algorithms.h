// Collectives made of messages between two ranks. Each file is one algorithm and names its paper; costs are in the α-β
// model of Hockney (1994), α a message and β a byte, for n bytes on p ranks. Combining costs γ a byte.
//
// All of them block, work in place on `data`, and throw what Transport::transfer throws.
#pragma once

#include <span>
#include <vector>

#include "core/transport.h"

namespace heddle::comm_detail {

// The memory and operation of a reduction.
struct Operand {
  std::byte* data;
  std::size_t count;    // number of elements
  std::size_t element;  // bytes of an element
  Combine combine;
  std::span<std::byte> part(const Part& part) const {
    return {data + part.begin * element, part.count * element};
  }
  std::span<std::byte> all() const { return {data, count * element}; }
};

// Ring: 2(p-1)α + 2n(p-1)/p β. The fewest bytes, the most messages. Order of additions: a chain of the ranks, which
// begins with the one after the part's owner.
void ring_all_reduce(Transport& transport, const Operand& operand);
// At the end rank r has part r of the reduction. The parts have equal sizes; the rest of the data is
// overwritten.
void ring_reduce_scatter(Transport& transport, const Operand& operand);
// Part r of the data is rank r's input. At the end all ranks have all parts.
void ring_all_gather(Transport& transport, std::byte* data, const std::vector<Part>& parts,
                     std::size_t element);

// Recursive doubling: log2(p) (α + nβ), + 2 messages if p is no power of two. The fewest messages. Order: balanced
// tree, if p is a power of two.
void recursive_doubling_all_reduce(Transport& transport, const Operand& operand);

// Recursive halving and doubling: 2 log2(p) α + 2n(p-1)/p β. Order: the same as in recursive doubling.
void halving_doubling_all_reduce(Transport& transport, const Operand& operand);

// Binomial trees, in pieces: 2 log2(p) (n/piece α + nβ), as the root has log2(p) children. Order: balanced tree, any p.
constexpr std::size_t kTreePiece = 64 << 10;  // sending a piece takes longer than the latency of a message
// Reduces the data to the root. On the other ranks the data are overwritten.
void tree_reduce(Transport& transport, const Operand& operand, int root);
void tree_broadcast(Transport& transport, std::span<std::byte> data, int root);
void tree_all_reduce(Transport& transport, const Operand& operand);

// Hierarchical. `hosts` has the number of each rank's host. With r ranks on each of h hosts: 2(r-1)α' + 2n(r-1)/r β'
// inside the hosts, and an all_reduce of n/r between hosts by each of the r ranks at once. If hosts have different
// numbers of ranks, one rank of each host communicates for all. Order: that of the rings inside the hosts, then that of
// the all_reduce between them.
void hierarchical_all_reduce(Transport& transport, const Operand& operand, const std::vector<int>& hosts);

// Pairwise exchange with one rank after the other: (p-1)α + n(p-1)/p β. Parts are in elements and include
// this rank's own.
void pairwise_all_to_all(Transport& transport, const std::byte* in, const std::vector<Part>& in_parts,
                         std::byte* out, const std::vector<Part>& out_parts, std::size_t element);

// A barrier by dissemination: ceil(log2(p)) α.
void dissemination_barrier(Transport& transport);

}  // namespace heddle::comm_detail
