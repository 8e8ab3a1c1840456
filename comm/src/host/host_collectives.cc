#include "host/host_collectives.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <string>

#include "core/mismatch.h"

namespace heddle::comm_detail {
namespace {

// Reduced at a time: small enough that what was just written is still in the first cache when it is copied on.
constexpr std::size_t kBlock = 8 << 10;

std::size_t sum_size(const Collective& call) { return call.bytes(); }

// Bytes that each rank brings.
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

HostCollectives::HostCollectives(HostGroup& group, const Reach& reach)
    : group_(group), reach_(reach), rank_(group.rank()), ranks_(group.size()) {
  parts_.resize(static_cast<std::size_t>(ranks_));
  scratch_.resize((std::bit_width(static_cast<unsigned>(ranks_)) + 2u) * kBlock);
}

void HostCollectives::step() { group_.publish(group_.mine().phase, ++steps_); }

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
  RankBlock& rank_block = group_.mine();
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
  group_.publish(here.ticket, 2 * sequence + call.record.failed);
}

// Blocks until all have come. They have all called the same, or this throws; so does a rank that has nothing to bring.
void HostCollectives::meet(const Collective& call) {
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
      "rank " + std::to_string(first) + " has nothing to bring to " + call.record.to_string() + ": " + text,
      first);
}

void HostCollectives::run(const Collective& call) {
  const std::size_t bytes = bytes_in(call, rank_, ranks_);
  const bool small = reduces(call.record.kind) ? sum_size(call) * (call.record.kind == Kind::reduce_scatter
                                                                       ? static_cast<std::size_t>(ranks_)
                                                                       : 1) <=
                                                     kSmall
                                               : sum_size(call) <= kSmall;
  if (small) {
    arrive(call, call.in, bytes);
    meet(call);
    return small_call(call);
  }
  if (!reduces(call.record.kind)) {
    arrive(call, nullptr, 0);
    meet(call);
    return spread_staged(call);
  }
  const std::size_t out_bytes =
      call.record.kind == Kind::reduce && rank_ != call.record.root ? 0 : sum_size(call);
  const std::uint64_t where[2] = {reach_.publish(call.in, bytes),
                                  out_bytes ? reach_.publish(call.out, out_bytes) : 1};
  try {
    arrive(call, reinterpret_cast<const std::byte*>(where), sizeof where);
    meet(call);
    std::vector<std::byte*> in, out;
    reachable(call, in, out) ? reduce_reachable(call, in, out) : reduce_staged(call);
  } catch (const RemoteFailure&) {
    throw;  // nobody has begun
  } catch (...) {
    // The arrays are the caller's again, who may free them.
    group_.await_withdrawal();
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
  const std::size_t bytes = sum_size(call), brought = bytes_in(call, rank_, ranks_);
  const std::size_t mine = scatter ? static_cast<std::size_t>(rank_) * bytes : 0;
  const Combine combine = combine_of(call.record.op, call.record.dtype);
  const std::size_t block = kBlock / call.element();
  std::vector<const std::byte*>& parts = parts_;
  for (std::size_t begin = 0; begin < call.record.count; begin += block) {
    const std::size_t offset = begin * call.element();
    for (int rank = 0; rank < ranks_; ++rank) {
      const std::byte* all = rank == rank_ ? call.in : small_of(rank, call, brought);
      parts[static_cast<std::size_t>(rank)] = all + mine + offset;
    }
    const std::size_t count = std::min<std::size_t>(block, call.record.count - begin);
    combine_tree(call.out + offset, parts, count, combine, call.element());
    if (call.record.op == ReduceOp::avg) scale(call.out + offset, count, call.record.dtype, ranks_);
  }
}

// Level by level, pairs of neighbours; what is left over goes up as it is. The tree over the first half of the ranks is
// that over these ranks alone, if they are a power of two.
void HostCollectives::combine_tree(std::byte* to, std::vector<const std::byte*>& parts, std::size_t count,
                                   Combine combine, std::size_t element) {
  (void)element;
  if (ranks_ == 1) return copy_bytes(to, parts[0], count * element);
  if (ranks_ == 2) return combine(to, parts[0], parts[1], count);
  const auto tree = [&](auto&& self, std::size_t begin, std::size_t size, std::byte* result,
                        std::byte* spare) -> const std::byte* {
    if (size == 1) return parts[begin];
    const std::size_t half = std::bit_ceil(size) / 2;
    const std::byte* left = self(self, begin, half, spare, spare + kBlock);
    // The left half's result stays in `spare`: the right half needs other room.
    const std::byte* right = self(self, begin + half, size - half, result, spare + kBlock);
    combine(result, left, right, count);
    return result;
  };
  // `to` may be this rank's own part: it is written when all has been read.
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
    in.push_back(reach_.find(rank, where[0], bytes_in(call, rank, ranks_)));
    out.push_back(wants ? reach_.find(rank, where[1], sum_size(call)) : nullptr);
  }
  return true;
}

// This rank's slice of everybody's data, straight from and to where it is.
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
  std::optional<HostGroup::Reaching> reaching(group_);
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
  reaching.reset();
  step();  // nobody returns before all have written into its array, and read from it
  all_have_done(steps_);
}

namespace {

// How data goes through a stage: each round a window of every part that it is cut into is on its way, side by side. Rounds, and
// calls, take the places in the stage in turn, though two would do: a place is used again as late as can be, since lines
// that another core still holds are slow to write (on two cores of an AMD EPYC 256 KiB took 48 us in one place, 21 in turn).
struct Windows {
  std::size_t each;   // bytes, whole lines; of the last round there may be fewer
  std::size_t parts;  // side by side
  std::size_t rounds;
  std::size_t places;  // 2 or more
  std::uint64_t first;

  // `longest`: bytes of the longest part; `turn`: rounds so far, the same on all ranks.
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

}  // namespace

// A stage holds a window of each slice, for its owner; in the place of the owner's own, its result. The place of round k is
// written again in round k + 2 or later, when everybody has said that it has done round k + 1 and so has read what was there.
void HostCollectives::reduce_staged(const Collective& call) {
  const bool scatter = call.record.kind == Kind::reduce_scatter;
  const bool receives =
      call.record.kind == Kind::all_reduce || (call.record.kind == Kind::reduce && rank_ == call.record.root);
  const Combine combine = combine_of(call.record.op, call.record.dtype);
  const std::size_t element = call.element();
  // In bytes, as all below.
  const auto slice_of = [&](int rank) {
    const Part slice = scatter ? Part{static_cast<std::size_t>(rank) * call.record.count, call.record.count}
                               : part_of(call.record.count, rank, ranks_);
    return Part{slice.begin * element, slice.count * element};
  };
  const Windows windows = Windows::of(slice_of(0).count, static_cast<std::size_t>(ranks_), stage_turn_);
  const auto place = [&](int of, std::size_t round, int slice) {
    return windows.place(group_.segment().rank_block(of), round, static_cast<std::size_t>(slice));
  };
  const auto window_of = [&](int slice, std::size_t round) {
    const Part all = slice_of(slice);
    return Part{all.begin + windows.begin(all.count, round), windows.length(all.count, round)};
  };
  const auto bring = [&](std::size_t round) {
    for (int slice = 0; slice < ranks_; ++slice) {
      if (slice == rank_) continue;
      const Part window = window_of(slice, round);
      copy_bytes(place(rank_, round, slice), call.in + window.begin, window.count);
    }
  };
  std::vector<const std::byte*> parts(static_cast<std::size_t>(ranks_));
  const auto reduce = [&](std::size_t round) {
    const Part window = window_of(rank_, round);
    std::byte* out =
        scatter ? call.out + windows.begin(slice_of(rank_).count, round) : call.out + window.begin;
    for (std::size_t begin = 0; begin < window.count; begin += kBlock) {
      const std::size_t bytes = std::min(kBlock, window.count - begin), count = bytes / element;
      for (int rank = 0; rank < ranks_; ++rank) {
        parts[static_cast<std::size_t>(rank)] =
            begin + (rank == rank_ ? call.in + window.begin : place(rank, round, rank_));
      }
      std::byte* result = place(rank_, round, rank_) + begin;
      combine_tree(result, parts, count, combine, element);
      if (call.record.op == ReduceOp::avg) scale(result, count, call.record.dtype, ranks_);
      if (scatter || receives) copy_bytes(out + begin, result, bytes);
    }
  };
  const auto take = [&](std::size_t round) {
    for (int slice = 0; slice < ranks_; ++slice) {
      if (slice == rank_ || !receives) continue;
      const Part window = window_of(slice, round);
      copy_bytes(call.out + window.begin, place(slice, round, slice), window.count);
    }
  };
  if (windows.rounds == 0) return;
  bring(0);
  step();
  for (std::size_t round = 0; round < windows.rounds; ++round) {
    all_have_done(steps_);  // has brought this round
    reduce(round);
    step();
    const std::uint64_t reduced = steps_;
    if (round + 1 < windows.rounds) {
      bring(round + 1);
      step();
    }
    all_have_done(reduced);
    take(round);
  }
}

// all_gather and broadcast: a window of each sender's data at a time.
void HostCollectives::spread_staged(const Collective& call) {
  const bool gather = call.record.kind == Kind::all_gather;
  const std::size_t bytes = sum_size(call);
  const bool sends = gather || rank_ == call.record.root;
  const Windows windows = Windows::of(bytes, 1, stage_turn_);
  const auto bring = [&](std::size_t round) {
    if (!sends) return;
    copy_bytes(windows.place(group_.mine(), round, 0), call.in + windows.begin(bytes, round),
               windows.length(bytes, round));
  };
  const auto take = [&](std::size_t round) {
    const std::size_t begin = windows.begin(bytes, round);
    for (int from = 0; from < ranks_; ++from) {
      if (!gather && (from != call.record.root || from == rank_)) continue;
      std::byte* to = call.out + (gather ? static_cast<std::size_t>(from) * bytes : 0) + begin;
      copy_bytes(to,
                 from == rank_ ? call.in + begin : windows.place(group_.segment().rank_block(from), round, 0),
                 windows.length(bytes, round));
    }
  };
  bring(0);
  step();
  for (std::size_t round = 0; round < windows.rounds; ++round) {
    all_have_done(steps_);  // has brought this round, and taken the one before
    // Its place is free: all have taken what was in it.
    if (round + 1 < windows.rounds) bring(round + 1);
    take(round);
    step();
  }
}

}  // namespace heddle::comm_detail
