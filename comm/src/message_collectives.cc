#include "message_collectives.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace heddle::detail {
namespace {

// Below, the number of messages counts; above, the number of bytes. On one host and over TCP alike the two cost the same
// at some tens of kilobytes (bench/comm_bench --tune).
constexpr std::size_t kFewBytes = 32 << 10;

bool power_of_two(int size) { return std::has_single_bit(static_cast<unsigned>(size)); }

Operand operand_of(const Collective& call, std::byte* data, std::size_t count) {
  return {data, count, call.element(), combine_of(call.record.op, call.record.dtype)};
}

// Several hosts, and several ranks on one of them.
bool two_levels(const std::vector<int>& hosts) {
  const int last = hosts.empty() ? 0 : *std::max_element(hosts.begin(), hosts.end());
  return last > 0 && last + 1 < static_cast<int>(hosts.size());
}

void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes && to != from) std::memcpy(to, from, bytes);
}

void finish(const Collective& call, std::byte* data, std::size_t count, int ranks) {
  if (call.record.op == ReduceOp::avg) scale(data, count, call.record.dtype, ranks);
}

}  // namespace

std::vector<Part> parts_of(const std::vector<std::int64_t>& counts) {
  std::vector<Part> parts;
  std::size_t begin = 0;
  for (std::int64_t count : counts) {
    parts.push_back({begin, static_cast<std::size_t>(count)});
    begin += static_cast<std::size_t>(count);
  }
  return parts;
}

void MessageCollectives::run(const Collective& call) {
  transport_.begin(call.record, call.failure);
  try {
    dispatch(call);
  } catch (...) {
    transport_.end();
    throw;
  }
  const Transport::Missing missing = transport_.end();
  if (missing.rank < 0 || call.record.failed) return;
  throw RemoteFailure("rank " + std::to_string(missing.rank) + " has nothing to bring to " +
                          call.record.to_string() + ": " + missing.why,
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

void MessageCollectives::reduce_in_place(const Operand& operand, Algorithm wanted) {
  const bool power = power_of_two(transport_.size());
  // A ring's order depends on the place in the array; folding changes the tree's where p is no power of two.
  if (reproducible_ && (wanted == Algorithm::ring || !power)) wanted = Algorithm::tree;
  const std::vector<int>& hosts = transport_.hosts();
  const bool alike = !two_levels(hosts);
  if (wanted == Algorithm::hierarchical && !alike && !reproducible_)
    return hierarchical_all_reduce(transport_, operand, hosts);
  if (wanted == Algorithm::automatic || wanted == Algorithm::direct || wanted == Algorithm::hierarchical) {
    const bool few = operand.all().size() <= kFewBytes;
    if (!few && !alike && !reproducible_) return hierarchical_all_reduce(transport_, operand, hosts);
    wanted = few ? Algorithm::recursive_doubling : power ? Algorithm::halving_doubling : Algorithm::ring;
  }
  switch (wanted) {
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

void MessageCollectives::all_reduce(const Collective& call) {
  copy_bytes(call.out, call.in, call.bytes());
  reduce_in_place(operand_of(call, call.out, call.record.count), call.record.algorithm);
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

}  // namespace heddle::detail
