// The shared memory of the ranks of a host: a rank block for each rank, and a pipe from every rank to every other one.
//
// A rank only ever waits for a counter of another rank to reach a value, and counters only grow. A wait can therefore
// be written into shared memory as a counter and a value, where the other ranks can detect deadlocks.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/collective.h"

namespace heddle::comm_detail {

using Counter = std::atomic<std::uint64_t>;
static_assert(Counter::is_always_lock_free);

inline constexpr std::size_t kLine = 64;
inline constexpr std::size_t kInline = 48;  // bytes of data that fit into an Arrival
// Most bytes of a call in which each rank reads the data of all ranks.
inline constexpr std::size_t kSmall = 16 << 10;
inline constexpr std::size_t kStage = 1 << 20;   // bytes of a rank's staging buffer
inline constexpr std::size_t kPipe = 128 << 10;  // bytes of a pipe's ring; a power of two
inline constexpr std::size_t kRecords = 1024;
inline constexpr std::size_t kText = 2000;
// Longest message of a survivor, in words of 8 bytes.
inline constexpr std::size_t kSurvivorMessageWords = 1024;

// The arrival of a rank at a call: what it calls, and its data if they are small. A rank has two of these and
// uses them alternately: when it arrives at call n+2 it has seen all others arrive at n+1, so none reads the
// arrival at n any more.
struct alignas(kLine) Arrival {
  Counter ticket;           // 2 * sequence; + 1 if the rank has nothing to send, because its op has failed
  std::uint64_t agreement;  // CallRecord::agreement of the call
  std::byte payload[kInline];
};
static_assert(sizeof(Arrival) == kLine);

// A wait of a sleeping rank, which ends when a counter that belongs to rank `rank` is at least `target`. A
// `counter` of 0: the rank does not wait.
struct Wait {
  Counter counter;  // offset of the counter in the segment
  Counter target;
  std::atomic<std::uint32_t> rank;
};

// The cores that a rank may run on, one bit for each. Cores with larger numbers are not counted.
inline constexpr std::size_t kCoreWords = 16;

enum class Presence : std::uint32_t { absent, joined, left };

// The message of a survivor of a fault (survivors.h). Successive messages use the two slots alternately.
struct alignas(kLine) SurvivorSlot {
  Counter count;  // number of messages so far
  Counter bytes[2];
  Counter message[2][kSurvivorMessageWords];
};

// The block of one rank. If it is all zeros, no rank has used it.
struct alignas(kLine) RankBlock {
  std::atomic<std::uint32_t> bell;      // a futex: changes when the rank is to check its waits again
  std::atomic<std::uint32_t> sleeping;  // whether the rank has to be woken through `bell`
  alignas(kLine) Counter phase;         // steps of calls that this rank has done
  alignas(kLine) Arrival arrivals[2];
  alignas(kLine) Wait waits[2];  // the rank goes on when one of these waits ends
  Counter wait_version;          // version of `waits`; odd while the rank waits and `waits` is complete
  // Whether the rank reads or writes other ranks' arrays.
  alignas(kLine) std::atomic<std::uint32_t> accessing_peers;
  alignas(kLine) Counter heartbeat;
  std::atomic<Presence> presence;  // written after `cores`, so that a rank that has joined has set its cores
  std::atomic<std::uint64_t> cores[kCoreWords];
  alignas(kLine) Counter recorded;  // number of calls that the rank has recorded so far
  CallRecord records[kRecords];
  char failure[2][kText];  // for arrivals with an odd ticket: why the rank has nothing to send
  SurvivorSlot survivor;
  alignas(kLine) std::byte small[2][kSmall];
  alignas(kLine) std::byte stage[kStage];
};

// A ring buffer from one rank to another.
struct alignas(kLine) Pipe {
  Counter head;                 // number of bytes written so far
  alignas(kLine) Counter tail;  // number of bytes read so far
  alignas(kLine) std::byte data[kPipe];
};

// Why the communicator cannot be used any more.
enum class Fault : std::uint32_t { none, mismatch, lost, silent, aborted };
// Whether a rank has claimed the fault block, to write into it. `again`: a second rank has claimed it, as the
// first one did not finish writing.
enum class Taken : std::uint32_t { no, yes, again };

// Says why the communicator has failed. Written by the rank that has claimed the block through `taken`.
struct alignas(kLine) FaultBlock {
  std::atomic<Taken> taken;
  std::atomic<Fault> fault;  // written last, so that a reader that sees a fault sees the other members
  std::int32_t rank;
  char text[kText];
};

// The layout of the shared memory, which is zeros at first and which the caller owns.
class Segment {
 public:
  Segment(std::byte* base, int ranks) : base_(base), ranks_(static_cast<std::size_t>(ranks)) {}
  static std::size_t bytes(int ranks) {
    const auto n = static_cast<std::size_t>(ranks);
    return sizeof(FaultBlock) + n * sizeof(RankBlock) + n * n * sizeof(Pipe);
  }
  int size() const { return static_cast<int>(ranks_); }
  FaultBlock& fault() const { return *reinterpret_cast<FaultBlock*>(base_); }
  RankBlock& rank_block(int rank) const {
    return reinterpret_cast<RankBlock*>(base_ + sizeof(FaultBlock))[static_cast<std::size_t>(rank)];
  }
  Pipe& pipe(int from, int to) const {
    auto* pipes = reinterpret_cast<Pipe*>(base_ + sizeof(FaultBlock) + ranks_ * sizeof(RankBlock));
    return pipes[static_cast<std::size_t>(from) * ranks_ + static_cast<std::size_t>(to)];
  }
  std::uint64_t offset_of(const Counter& counter) const {
    return static_cast<std::uint64_t>(reinterpret_cast<const std::byte*>(&counter) - base_);
  }
  const Counter& counter_at(std::uint64_t offset) const {
    return *reinterpret_cast<Counter*>(base_ + offset);
  }

 private:
  std::byte* base_;
  std::size_t ranks_;
};

}  // namespace heddle::comm_detail
