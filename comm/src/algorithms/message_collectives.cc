#include "algorithms/message_collectives.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <span>

namespace heddle::comm_detail {
namespace {

// The most bytes of a call that is fused. Larger calls take so long that the latency that fusion saves does not matter.
constexpr std::size_t kMaxFusedEach = 32 << 10;

bool power_of_two(int size) { return std::has_single_bit(static_cast<unsigned>(size)); }

Operand operand_of(const Collective& call, std::byte* data, std::size_t count) {
  return {data, count, call.element(), combine_of(call.record.op, call.record.dtype)};
}

// The number of ranks on the host with the most, which is the slowest one.
int most_on_a_host(const std::vector<int>& hosts, int ranks) {
  std::map<int, int> counts;
  int most = 0;
  for (const int host : hosts) most = std::max(most, ++counts[host]);
  return hosts.empty() ? ranks : most;
}

NetworkCost cost_among(NetworkCost cost, const Transport& transport) {
  cost.ranks_per_host = most_on_a_host(transport.hosts(), transport.size());
  return cost;
}

Algorithm algorithm_of(AllReduce chosen) {
  constexpr Algorithm kAlgorithms[] = {Algorithm::ring, Algorithm::tree, Algorithm::recursive_doubling,
                                       Algorithm::halving_doubling, Algorithm::hierarchical};
  return kAlgorithms[static_cast<std::size_t>(chosen)];
}

void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes && to != from) std::memcpy(to, from, bytes);
}

void finish(const Collective& call, std::byte* data, std::size_t count, int ranks) {
  if (call.record.op == ReduceOp::avg) scale(data, count, call.record.dtype, ranks);
}

}  // namespace

MessageCollectives::MessageCollectives(Transport& transport, bool reproducible, bool agree_first,
                                       const NetworkCost& cost)
    : transport_(transport),
      reproducible_(reproducible),
      agree_first_(agree_first),
      cost_(cost_among(cost, transport)),
      two_levels_(cost_.ranks_per_host > 1 && cost_.ranks_per_host < transport.size()) {}

std::vector<Part> parts_of(const std::vector<std::int64_t>& counts) {
  std::vector<Part> parts;
  std::size_t begin = 0;
  for (std::int64_t count : counts) {
    parts.push_back({begin, static_cast<std::size_t>(count)});
    begin += static_cast<std::size_t>(count);
  }
  return parts;
}

void MessageCollectives::run(Collective& call) {
  transport_.begin(call.record, call.failure, call.members);
  try {
    dispatch(call);
  } catch (...) {
    transport_.end();
    throw;
  }
  const Transport::Missing missing = transport_.end();
  call.record.ahead = call.record.kind == Kind::all_reduce && call.record.count > 0 ? transport_.ahead() : 0;
  if (missing.rank < 0 || call.record.failed) return;
  throw RemoteFailure("rank " + std::to_string(missing.rank) + " has no data for " + call.record.to_string() +
                          ": " + missing.why,
                      missing.rank);
}

void MessageCollectives::dispatch(const Collective& call) {
  const bool rooted = call.record.kind == Kind::broadcast || call.record.kind == Kind::reduce;
  if (agree_first_ && rooted) dissemination_barrier(transport_);
  switch (call.record.kind) {
    case Kind::all_reduce:
      return all_reduce(call);
    case Kind::reduce:
      return reduce(call);
    case Kind::reduce_scatter:
      return reduce_scatter(call);
    case Kind::all_gather:
      return all_gather(call);
    case Kind::all_to_all:
      return all_to_all(call);
    case Kind::broadcast:
      return tree_broadcast(transport_, {call.out, call.bytes()}, call.record.root);
    case Kind::send:
      return transport_.transfer({.to = call.record.root, .out = {call.in, call.bytes()}});
    case Kind::recv:
      return transport_.transfer({.from = call.record.root, .in = {call.out, call.bytes()}});
    case Kind::barrier:
      return dissemination_barrier(transport_);
    case Kind::none:
    case Kind::leave:
      return;
  }
}

bool MessageCollectives::may_fuse(const Collective& call, Algorithm wanted) const {
  if (call.record.kind != Kind::all_reduce || call.record.failed || call.record.count == 0) return false;
  if (call.bytes() > kMaxFusedEach) return false;
  const Algorithm alone = choose(call.bytes(), wanted, false);
  return reproducible_ || alone == Algorithm::recursive_doubling || alone == Algorithm::halving_doubling;
}

Algorithm MessageCollectives::choose(std::size_t bytes, Algorithm wanted, bool fused) const {
  const bool power = power_of_two(transport_.size());
  // The reproducible order is that of the tree. A ring adds in an order that depends on the position in the array, and
  // the other algorithms differ from the tree if p is no power of two.
  if (reproducible_ && (wanted == Algorithm::ring || !power)) wanted = Algorithm::tree;
  const bool apart = wanted == Algorithm::hierarchical && (reproducible_ || !two_levels_);
  const bool free = wanted == Algorithm::automatic || wanted == Algorithm::direct || apart;
  return free ? fastest(bytes, fused) : wanted;
}

void MessageCollectives::reduce_in_place(const Operand& operand, Algorithm wanted, bool fused) {
  switch (choose(operand.all().size(), wanted, fused)) {
    case Algorithm::hierarchical:
      return hierarchical_all_reduce(transport_, operand, transport_.hosts());
    case Algorithm::ring:
      return ring_all_reduce(transport_, operand);
    case Algorithm::tree:
      return tree_all_reduce(transport_, operand);
    case Algorithm::halving_doubling:
      return halving_doubling_all_reduce(transport_, operand);
    default:
      return recursive_doubling_all_reduce(transport_, operand);
  }
}

// Reproducible calls exclude the algorithms that add in the order of a ring. Whether calls are fused depends on timing,
// so a fused call must add like each of its members alone: in the order of the first two candidates, which is the same.
Algorithm MessageCollectives::fastest(std::size_t bytes, bool fused) const {
  constexpr AllReduce kAll[] = {AllReduce::recursive_doubling, AllReduce::halving_doubling, AllReduce::tree,
                                AllReduce::ring, AllReduce::hierarchical};
  const std::span<const AllReduce> candidates(kAll, reproducible_ ? 3 : fused ? 2 : two_levels_ ? 5 : 4);
  return algorithm_of(fastest_all_reduce(candidates, cost_, transport_.size(), static_cast<double>(bytes)));
}

void MessageCollectives::all_reduce(const Collective& call) {
  copy_bytes(call.out, call.in, call.bytes());
  reduce_in_place(operand_of(call, call.out, call.record.count), call.record.algorithm,
                  !call.members.empty());
  finish(call, call.out, call.record.count, transport_.size());
}

void MessageCollectives::reduce(const Collective& call) {
  const bool root = transport_.rank() == call.record.root;
  std::vector<std::byte> spare(root ? 0 : call.bytes());
  std::byte* data = root ? call.out : spare.data();
  copy_bytes(data, call.in, call.bytes());
  tree_reduce(transport_, operand_of(call, data, call.record.count), call.record.root);
  if (root) finish(call, data, call.record.count, transport_.size());
}

void MessageCollectives::reduce_scatter(const Collective& call) {
  const auto ranks = static_cast<std::size_t>(transport_.size()),
             rank = static_cast<std::size_t>(transport_.rank());
  std::vector<std::byte> all(call.bytes() * ranks);
  copy_bytes(all.data(), call.in, all.size());
  const Operand operand = operand_of(call, all.data(), call.record.count * ranks);
  reproducible_ ? reduce_in_place(operand, call.record.algorithm) : ring_reduce_scatter(transport_, operand);
  copy_bytes(call.out, all.data() + rank * call.bytes(), call.bytes());
  finish(call, call.out, call.record.count, transport_.size());
}

void MessageCollectives::all_gather(const Collective& call) {
  const auto rank = static_cast<std::size_t>(transport_.rank());
  copy_bytes(call.out + rank * call.bytes(), call.in, call.bytes());
  const std::vector<std::int64_t> counts(static_cast<std::size_t>(transport_.size()),
                                         static_cast<std::int64_t>(call.record.count));
  ring_all_gather(transport_, call.out, parts_of(counts), call.element());
}

void MessageCollectives::all_to_all(const Collective& call) {
  pairwise_all_to_all(transport_, call.in, parts_of(call.in_counts), call.out, parts_of(call.out_counts),
                      call.element());
}

}  // namespace heddle::comm_detail
