#include "host/host_collectives.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <string>

#include "core/mismatch.h"

namespace heddle::comm_detail {
namespace {

// Bytes that are reduced at a time: so few that a block that was just written is still in the L1 cache when
// it is copied on.
constexpr std::size_t kBlock = 8 << 10;

std::size_t sum_size(const Collective& call) { return call.bytes(); }

// Bytes of the rank's input.
std::size_t bytes_in(const Collective& call, int rank, int ranks) {
  switch (call.record.kind) {
    case Kind::barrier:
      return 0;
    case Kind::reduce_scatter:
      return sum_size(call) * static_cast<std::size_t>(ranks);
    case Kind::broadcast:
      return rank == call.record.root ? sum_size(call) : 0;
    default:
      return sum_size(call);
  }
}

void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes && to != from) std::memcpy(to, from, bytes);
}

}  // namespace

HostCollectives::HostCollectives(HostGroup& group, const PeerMemory& peer_memory)
    : group_(group), peer_memory_(peer_memory), rank_(group.rank()), ranks_(group.size()) {
  parts_.resize(static_cast<std::size_t>(ranks_));
  scratch_.resize((std::bit_width(static_cast<unsigned>(ranks_)) + 2u) * kBlock);
}

void HostCollectives::step() {
  ++steps_;
  group_.publish_to_all([](RankBlock& block) -> Counter& { return block.phase; }, steps_, steps_);
}

void HostCollectives::all_have_done(std::uint64_t steps) {
  for (int other = 0; other < ranks_; ++other) {
    if (other != rank_) group_.await(group_.segment().rank_block(other).phase, steps, other);
  }
}

const Arrival& HostCollectives::arrival(int rank, const Collective& call) const {
  return group_.segment().rank_block(rank).arrivals[call.record.sequence % 2];
}

const std::byte* HostCollectives::small_of(int rank, const Collective& call, std::size_t bytes) const {
  if (bytes <= kInline) return arrival(rank, call).payload;
  return group_.segment().rank_block(rank).small[call.record.sequence % 2];
}

void HostCollectives::arrive(const Collective& call, const std::byte* small, std::size_t bytes) {
  RankBlock& rank_block = group_.own_block();
  const std::uint64_t sequence = call.record.sequence;
  Arrival& here = rank_block.arrivals[sequence % 2];
  here.agreement = call.record.agreement;
  if (call.record.failed) {
    const std::size_t length = std::min(call.failure.size(), kText - 1);
    char* text = rank_block.failure[sequence % 2];
    std::memcpy(text, call.failure.data(), length);
    text[length] = '\0';
  } else {
    copy_bytes(bytes <= kInline ? here.payload : rank_block.small[sequence % 2], small, bytes);
  }
  group_.publish_to_all(
      [sequence](RankBlock& block) -> Counter& { return block.arrivals[sequence % 2].ticket; },
      2 * sequence + call.record.failed, 2 * sequence);
}

// Blocks until all ranks have arrived. Throws if they have not all called the same, or if one has no data to send.
void HostCollectives::await_arrivals(const Collective& call) {
  bool failed = call.record.failed;
  for (int other = 0; other < ranks_; ++other) {
    if (other == rank_) continue;
    const Arrival& there = arrival(other, call);
    group_.await(there.ticket, 2 * call.record.sequence, other);
    if (there.agreement != call.record.agreement) mismatch(call, other);
    failed |= there.ticket.load(std::memory_order_relaxed) % 2 == 1;
  }
  if (failed) remote_failure(call);
}

void HostCollectives::mismatch(const Collective& call, int other) {
  group_.fail(Fault::mismatch, other,
              different_calls({rank_, call.record}, {other, group_.last_record(other)}));
}

void HostCollectives::remote_failure(const Collective& call) {
  std::string text;
  int first = rank_;
  for (int rank = ranks_; rank-- > 0;) {
    if (arrival(rank, call).ticket.load(std::memory_order_acquire) % 2 == 0) continue;
    first = rank;
    text = group_.segment().rank_block(rank).failure[call.record.sequence % 2];
  }
  throw RemoteFailure(
      "rank " + std::to_string(first) + " has no data for " + call.record.to_string() + ": " + text, first);
}

void HostCollectives::run(const Collective& call) {
  const std::size_t bytes = bytes_in(call, rank_, ranks_);
  const bool scatters = call.record.kind == Kind::reduce_scatter;
  if (sum_size(call) * (scatters ? static_cast<std::size_t>(ranks_) : 1) <= kSmall) {
    arrive(call, call.in, bytes);
    await_arrivals(call);
    return small_call(call);
  }
  if (!reduces(call.record.kind)) {
    arrive(call, nullptr, 0);
    await_arrivals(call);
    return copy_staged(call);
  }
  const std::size_t out_bytes =
      call.record.kind == Kind::reduce && rank_ != call.record.root ? 0 : sum_size(call);
  constexpr std::uint64_t kNotNeeded = 1;
  const std::uint64_t where[2] = {peer_memory_.shared_address(call.in, bytes),
                                  out_bytes ? peer_memory_.shared_address(call.out, out_bytes) : kNotNeeded};
  try {
    arrive(call, reinterpret_cast<const std::byte*>(where), sizeof where);
    await_arrivals(call);
    std::vector<std::byte*> in, out;
    reachable(call, in, out) ? reduce_reachable(call, in, out) : reduce_staged(call);
  } catch (const RemoteFailure&) {
    throw;  // no rank has accessed the arrays of another rank, so there is nothing to wait for
  } catch (...) {
    // The caller may free the arrays as soon as this returns.
    group_.await_peer_access_end();
    throw;
  }
}

void HostCollectives::small_call(const Collective& call) {
  const std::size_t bytes = sum_size(call);
  if (reduces(call.record.kind)) return reduce_small(call);
  if (call.record.kind == Kind::broadcast) {
    if (rank_ != call.record.root) copy_bytes(call.out, small_of(call.record.root, call, bytes), bytes);
  } else if (call.record.kind == Kind::all_gather) {
    for (int rank = 0; rank < ranks_; ++rank) {
      copy_bytes(call.out + static_cast<std::size_t>(rank) * bytes,
                 rank == rank_ ? call.in : small_of(rank, call, bytes), bytes);
    }
  }
}

void HostCollectives::reduce_small(const Collective& call) {
  const bool scatter = call.record.kind == Kind::reduce_scatter;
  if (call.record.kind == Kind::reduce && rank_ != call.record.root) return;
  const std::size_t bytes = sum_size(call), own_bytes = bytes_in(call, rank_, ranks_);
  const std::size_t mine = scatter ? static_cast<std::size_t>(rank_) * bytes : 0;
  const Combine combine = combine_of(call.record.op, call.record.dtype);
  const std::size_t block = kBlock / call.element();
  std::vector<const std::byte*>& parts = parts_;
  for (std::size_t begin = 0; begin < call.record.count; begin += block) {
    const std::size_t offset = begin * call.element();
    for (int rank = 0; rank < ranks_; ++rank) {
      const std::byte* all = rank == rank_ ? call.in : small_of(rank, call, own_bytes);
      parts[static_cast<std::size_t>(rank)] = all + mine + offset;
    }
    const std::size_t count = std::min<std::size_t>(block, call.record.count - begin);
    combine_tree(call.out + offset, parts, count, combine, call.element());
    if (call.record.op == ReduceOp::avg) scale(call.out + offset, count, call.record.dtype, ranks_);
  }
}

// The tree combines neighbours level by level; a part without a neighbour moves up unchanged. So the ranks
// below the largest power of two are combined as in a job of these ranks alone.
void HostCollectives::combine_tree(std::byte* to, std::vector<const std::byte*>& parts, std::size_t count,
                                   Combine combine, std::size_t element) {
  if (ranks_ == 1) return copy_bytes(to, parts[0], count * element);
  if (ranks_ == 2) return combine(to, parts[0], parts[1], count);
  const auto tree = [&](auto&& self, std::size_t begin, std::size_t size, std::byte* result,
                        std::byte* spare) -> const std::byte* {
    if (size == 1) return parts[begin];
    const std::size_t half = std::bit_ceil(size) / 2;
    const std::byte* left = self(self, begin, half, spare, spare + kBlock);
    // `spare` still holds the left half's result, so the right half uses the memory behind it.
    const std::byte* right = self(self, begin + half, size - half, result, spare + kBlock);
    combine(result, left, right, count);
    return result;
  };
  // `to` may be this rank's own part, so it is written only after everything has been read.
  const std::size_t all = parts.size(), half = std::bit_ceil(all) / 2;
  std::byte* first = scratch_.data();
  const std::byte* left = tree(tree, 0, half, first, first + kBlock);
  std::byte* second = left == first ? first + kBlock : first;
  const std::byte* right = tree(tree, half, all - half, second, second + kBlock);
  combine(to, left, right, count);
}

bool HostCollectives::reachable(const Collective& call, std::vector<std::byte*>& in,
                                std::vector<std::byte*>& out) const {
  for (int rank = 0; rank < ranks_; ++rank) {
    std::uint64_t where[2];
    std::memcpy(where, arrival(rank, call).payload, sizeof where);
    const bool wants = call.record.kind != Kind::reduce || rank == call.record.root;
    if (!where[0] || !where[1]) return false;
    if (rank == rank_) {
      in.push_back(const_cast<std::byte*>(call.in));
      out.push_back(wants ? call.out : nullptr);
      continue;
    }
    in.push_back(peer_memory_.find(rank, where[0], bytes_in(call, rank, ranks_)));
    out.push_back(wants ? peer_memory_.find(rank, where[1], sum_size(call)) : nullptr);
  }
  return true;
}

// Reduces this rank's slice directly from and into the arrays of all ranks.
void HostCollectives::reduce_reachable(const Collective& call, const std::vector<std::byte*>& in,
                                       const std::vector<std::byte*>& out) {
  const bool scatter = call.record.kind == Kind::reduce_scatter;
  const Combine combine = combine_of(call.record.op, call.record.dtype);
  const std::size_t element = call.element(), block = kBlock / element;
  const auto mine = static_cast<std::size_t>(rank_);
  const Part slice =
      scatter ? Part{mine * call.record.count, call.record.count} : part_of(call.record.count, rank_, ranks_);
  std::vector<const std::byte*> parts(in.size());
  std::vector<std::byte> result(kBlock);
  std::optional<HostGroup::PeerAccess> access(group_);
  for (std::size_t begin = 0; begin < slice.count; begin += block) {
    group_.check();
    const std::size_t count = std::min(block, slice.count - begin), offset = (slice.begin + begin) * element;
    for (std::size_t rank = 0; rank < in.size(); ++rank) parts[rank] = in[rank] + offset;
    std::byte* to = scatter ? out[mine] + begin * element : out[mine] ? out[mine] + offset : result.data();
    combine_tree(to, parts, count, combine, element);
    if (call.record.op == ReduceOp::avg) scale(to, count, call.record.dtype, ranks_);
    if (scatter) continue;
    for (std::size_t rank = 0; rank < out.size(); ++rank) {
      if (rank != mine && out[rank]) std::memcpy(out[rank] + offset, to, count * element);
    }
  }
  access.reset();
  step();  // no rank returns before all have finished with its arrays
  all_have_done(steps_);
}

// How a call's data pass through the staging buffers. In each round the buffer holds a window of every part,
// side by side, in one of its slots (`places`). Successive rounds, also of successive calls, use the slots
// cyclically. Two slots would do, but a slot is reused as late as possible, since cache lines that another
// core still holds are slow to write (on two cores of an AMD EPYC 256 KiB took 48 us with one slot, and 21 us
// with all).
struct HostCollectives::Windows {
  std::size_t each;  // bytes of a window, in whole cache lines; the last round may have fewer
  std::size_t parts;
  std::size_t rounds;
  std::size_t places;  // slots of the buffer, 2 or more
  std::uint64_t first;

  // `longest`: bytes of the longest part. `turn`: number of rounds of all calls so far, on every rank.
  static Windows of(std::size_t longest, std::size_t parts, std::uint64_t& turn) {
    const std::size_t room = kStage / 2 / parts / kLine * kLine, rounds = (longest + room - 1) / room;
    const std::size_t even = rounds ? (longest + rounds - 1) / rounds : 1;
    const std::size_t each = (even + kLine - 1) / kLine * kLine;
    const Windows windows{each, parts, rounds, kStage / (each * parts), turn};
    turn += rounds;
    return windows;
  }
  std::size_t begin(std::size_t bytes, std::size_t round) const { return std::min(bytes, round * each); }
  std::size_t length(std::size_t bytes, std::size_t round) const {
    return std::min(each, bytes - begin(bytes, round));
  }
  std::byte* place(RankBlock& rank_block, std::size_t round, std::size_t part) const {
    return rank_block.stage + ((first + round) % places * parts + part) * each;
  }
};

// One reduction through the staging buffers. A rank's buffer holds a window of each slice, for the slice's
// owner to read; at the position of its own slice it holds the result. The slot of round k is written again
// in round k + 2 or later, after all ranks have done round k + 1 and so have read that slot.
class HostCollectives::StagedReduction {
 public:
  StagedReduction(const HostGroup& group, const Collective& call, std::uint64_t& turn)
      : group_(group),
        call_(call),
        rank_(group.rank()),
        ranks_(group.size()),
        scatter_(call.record.kind == Kind::reduce_scatter),
        receives_(call.record.kind == Kind::all_reduce ||
                  (call.record.kind == Kind::reduce && rank_ == call.record.root)),
        windows_(Windows::of(slice_of(0).count, static_cast<std::size_t>(ranks_), turn)),
        parts_(static_cast<std::size_t>(ranks_)) {}

  std::size_t rounds() const { return windows_.rounds; }

  // Copies this round's windows of the other ranks' slices into this rank's buffer.
  void copy_in(std::size_t round) const {
    for (int slice = 0; slice < ranks_; ++slice) {
      if (slice == rank_) continue;
      const Part window = window_of(slice, round);
      copy_bytes(place(rank_, round, slice), call_.in + window.begin, window.count);
    }
  }

  // Reduces this rank's window of all ranks' data: combine_tree(to, parts, count).
  template <class CombineTree> void reduce(std::size_t round, CombineTree&& combine_tree) {
    const Part window = window_of(rank_, round);
    std::byte* out = call_.out + (scatter_ ? windows_.begin(slice_of(rank_).count, round) : window.begin);
    for (std::size_t begin = 0; begin < window.count; begin += kBlock) {
      const std::size_t bytes = std::min(kBlock, window.count - begin), count = bytes / call_.element();
      for (int rank = 0; rank < ranks_; ++rank) {
        parts_[static_cast<std::size_t>(rank)] =
            begin + (rank == rank_ ? call_.in + window.begin : place(rank, round, rank_));
      }
      std::byte* result = place(rank_, round, rank_) + begin;
      combine_tree(result, parts_, count);
      if (call_.record.op == ReduceOp::avg) scale(result, count, call_.record.dtype, ranks_);
      if (scatter_ || receives_) copy_bytes(out + begin, result, bytes);
    }
  }

  // Copies the other ranks' results of this round from their buffers.
  void copy_out(std::size_t round) const {
    for (int slice = 0; slice < ranks_; ++slice) {
      if (slice == rank_ || !receives_) continue;
      const Part window = window_of(slice, round);
      copy_bytes(call_.out + window.begin, place(slice, round, slice), window.count);
    }
  }

 private:
  // The slice of a rank in bytes, like the result of window_of().
  Part slice_of(int rank) const {
    const std::size_t count = call_.record.count, element = call_.element();
    const Part slice =
        scatter_ ? Part{static_cast<std::size_t>(rank) * count, count} : part_of(count, rank, ranks_);
    return Part{slice.begin * element, slice.count * element};
  }
  Part window_of(int slice, std::size_t round) const {
    const Part all = slice_of(slice);
    return Part{all.begin + windows_.begin(all.count, round), windows_.length(all.count, round)};
  }
  std::byte* place(int rank, std::size_t round, int slice) const {
    return windows_.place(group_.segment().rank_block(rank), round, static_cast<std::size_t>(slice));
  }

  const HostGroup& group_;
  const Collective& call_;
  const int rank_, ranks_;
  const bool scatter_, receives_;  // whether the call is a reduce_scatter; whether this rank gets results
  const Windows windows_;
  std::vector<const std::byte*> parts_;
};

void HostCollectives::reduce_staged(const Collective& call) {
  StagedReduction reduction(group_, call, stage_turn_);
  const Combine combine = combine_of(call.record.op, call.record.dtype);
  const auto tree = [&](std::byte* to, std::vector<const std::byte*>& parts, std::size_t count) {
    combine_tree(to, parts, count, combine, call.element());
  };
  if (reduction.rounds() == 0) return;
  reduction.copy_in(0);
  step();
  for (std::size_t round = 0; round < reduction.rounds(); ++round) {
    all_have_done(steps_);  // all ranks have copied this round into their buffers
    reduction.reduce(round, tree);
    step();
    const std::uint64_t reduced = steps_;
    if (round + 1 < reduction.rounds()) {
      reduction.copy_in(round + 1);
      step();
    }
    all_have_done(reduced);
    reduction.copy_out(round);
  }
}

// all_gather and broadcast: each sender's data pass through its staging buffer, a window at a time.
void HostCollectives::copy_staged(const Collective& call) {
  const bool gather = call.record.kind == Kind::all_gather;
  const std::size_t bytes = sum_size(call);
  const bool sends = gather || rank_ == call.record.root;
  const Windows windows = Windows::of(bytes, 1, stage_turn_);
  const auto copy_in = [&](std::size_t round) {
    if (!sends) return;
    copy_bytes(windows.place(group_.own_block(), round, 0), call.in + windows.begin(bytes, round),
               windows.length(bytes, round));
  };
  const auto copy_out = [&](std::size_t round) {
    const std::size_t begin = windows.begin(bytes, round);
    for (int from = 0; from < ranks_; ++from) {
      if (!gather && (from != call.record.root || from == rank_)) continue;
      std::byte* to = call.out + (gather ? static_cast<std::size_t>(from) * bytes : 0) + begin;
      copy_bytes(to,
                 from == rank_ ? call.in + begin : windows.place(group_.segment().rank_block(from), round, 0),
                 windows.length(bytes, round));
    }
  };
  copy_in(0);
  step();
  for (std::size_t round = 0; round < windows.rounds; ++round) {
    all_have_done(steps_);  // all ranks have copied this round in, and the previous one out
    // The slot of the next round is free, since all ranks have read it.
    if (round + 1 < windows.rounds) copy_in(round + 1);
    copy_out(round);
    step();
  }
}

}  // namespace heddle::comm_detail
