// The records of a trace in memory. All have the size of a cache line.
#pragma once

#include <cstddef>
#include <cstdint>

namespace heddle::trace {

using Tick = std::uint64_t;  // a point in time, from trace::now()

inline constexpr std::uint64_t kNone = ~std::uint64_t{0};  // stands for no op: no op has this sequence number

enum class Kind : std::uint8_t {
  op,         // an op, from the start of its function to the end
  graph_op,   // an op of a graph, from the start of its function to the end
  issue,      // the function of an asynchronous op or of one on a stream, from its start to its return
  completed,  // an asynchronous op, from the start of its function to its completion
  wait,       // a thread that waits
  gap,        // a time in which records of the thread were dropped; Record::other is their number
  blocked,    // the push of op `sequence` waited for room in the budget, which the end of op `other` gave
};

// Trivial, so that a chunk of records need not be initialised.
struct Record {
  Tick start, end;
  std::uint64_t sequence;  // the op's number in its engine; for a wait: number of the op around it
  std::uint64_t other;     // number of the op that made this one ready; for gap and blocked see Kind
  const char* name;        // read when the record is written to the file
  const char* file;        // source file of the push; empty: not known
  std::uint32_t line;
  std::uint32_t lane;
  std::uint32_t engine;
  Kind kind;
};

// Lanes below kFirstWorkerLane belong to threads. Each engine has kLanesPerEngine lanes above, for its worker
// slots and streams.
inline constexpr std::uint32_t kFirstWorkerLane = 1u << 20, kLanesPerEngine = 1u << 12;
constexpr std::uint32_t worker_lane(std::uint32_t engine, int worker) {
  return kFirstWorkerLane + engine * kLanesPerEngine + static_cast<std::uint32_t>(worker);
}
// The lane of an engine's first stream, counted from the engine's first lane. Streams for which there is no
// lane left share the last one.
inline constexpr std::uint32_t kFirstStreamLane = kLanesPerEngine / 2;
constexpr std::uint32_t stream_lane(std::uint32_t engine, std::size_t number) {
  constexpr std::uint32_t kMost = kLanesPerEngine - kFirstStreamLane - 1;
  const std::uint32_t lane = number < kMost ? static_cast<std::uint32_t>(number) : kMost;
  return worker_lane(engine, 0) + kFirstStreamLane + lane;
}

}  // namespace heddle::trace
