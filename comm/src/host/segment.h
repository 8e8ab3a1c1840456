// What ranks on one host share: a rank block for each rank, pipes between every two, and room for data on its way.
//
// Everything that one rank waits for is a counter of another that only grows. So a wait is a counter and a value, it can
// be written down where others see it, and whether ranks wait for each other in a circle can be found out.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/collective.h"

namespace heddle::comm_detail {

using Counter = std::atomic<std::uint64_t>;
static_assert(Counter::is_always_lock_free);

inline constexpr std::size_t kLine = 64;
inline constexpr std::size_t kInline = 48;       // bytes that travel in the line that says a rank has come
inline constexpr std::size_t kSmall = 16 << 10;  // bytes up to which everybody reads everything
inline constexpr std::size_t kStage = 1 << 20;   // bytes of a rank's data on their way
inline constexpr std::size_t kPipe = 128 << 10;  // a power of two
inline constexpr std::size_t kRecords = 1024;
inline constexpr std::size_t kText = 2000;
inline constexpr std::size_t kSurvivorWord = 1024;  // in pieces of 8 bytes

// Says that a rank has come to a call, with what, and the data if there are few. There are two of them, taken in turn:
// who comes to call n+2 has seen all others at n+1, so nobody looks at n any more.
struct alignas(kLine) Arrival {
  Counter ticket;           // 2 * sequence, + 1: the rank has nothing to send, its op has failed
  std::uint64_t agreement;  // see CallRecord
  std::byte payload[kInline];
};
static_assert(sizeof(Arrival) == kLine);

// What a rank sleeps for: `counter`, of rank whom, reaching `target`. Zero counter: nothing.
struct Wait {
  Counter counter;  // where it is in the segment
  Counter target;
  std::atomic<std::uint32_t> whom;
};

// That a rank may run on, a bit each; of those with larger numbers nobody speaks.
inline constexpr std::size_t kCoreWords = 16;

enum class Presence : std::uint32_t { absent, there, left };

// What survivors of a fault tell each other (survivors.h), in two places that are taken in turn.
struct alignas(kLine) SurvivorBoard {
  Counter said;  // words so far
  Counter bytes[2];
  Counter word[2][kSurvivorWord];
};

// All zero is a rank block that nobody has used.
struct alignas(kLine) RankBlock {
  std::atomic<std::uint32_t> bell;      // a futex: changes when the rank is to look again
  std::atomic<std::uint32_t> sleeping;  // it has to be rung
  alignas(kLine) Counter phase;         // steps of calls that this rank has done
  alignas(kLine) Arrival arrivals[2];
  alignas(kLine) Wait waits[2];  // it goes on when one of them is over
  Counter naps;                  // odd: it waits, and its waits are all written; changes with them
  alignas(kLine) std::atomic<std::uint32_t> reaching;  // into other ranks' arrays
  alignas(kLine) Counter heartbeat;
  std::atomic<Presence> presence;  // written after:
  std::atomic<std::uint64_t> cores[kCoreWords];
  alignas(kLine) Counter recorded;  // calls so far
  CallRecord records[kRecords];
  char failure[2][kText];  // with a ticket that says so: what went wrong; taken in turn like arrivals
  SurvivorBoard survivor;
  alignas(kLine) std::byte small[2][kSmall];
  alignas(kLine) std::byte stage[kStage];
};

// From one rank to another.
struct alignas(kLine) Pipe {
  Counter head;                 // bytes written
  alignas(kLine) Counter tail;  // bytes read
  alignas(kLine) std::byte data[kPipe];
};

// Why nobody goes on.
enum class Fault : std::uint32_t { none, mismatch, lost, silent, aborted };
enum class Taken : std::uint32_t { no, yes, again };  // again: the first taker has died or stopped over it

struct alignas(kLine) FaultBlock {
  std::atomic<Taken> taken;  // by the rank that writes the rest
  std::atomic<Fault> fault;  // written last
  std::int32_t rank;
  char text[kText];
};

// Where everything is. The memory begins as zeros and belongs to somebody else.
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
