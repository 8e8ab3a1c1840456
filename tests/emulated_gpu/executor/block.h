// The state of the blocks that a host thread runs. Used by the executor alone.
#pragma once

#include <cstdint>
#include <deque>
#include <source_location>
#include <string>
#include <vector>

#include "executor/executor.h"

namespace heddle::emulated_gpu {

struct Block;

constexpr int kMostThreads = 1024;
constexpr int kWarps = kMostThreads / on_gpu::kWarp;

enum class State : std::uint8_t { ready, at_barrier, at_warp_operation, ended };

// A meeting of the lanes of a warp.
struct Round {
  enum class Kind : std::uint8_t { barrier, exchange, match };
  Kind kind{};
  unsigned mask = 0, arrived = 0, unread = 0;  // unread: lanes that have not taken their result
  std::uint64_t values[on_gpu::kWarp]{};
  char sync = 0;  // its address is what ThreadSanitizer synchronises by
};

// A CUDA thread.
struct Fiber : on_gpu::Thread {
  Fiber() = default;
  using Thread::block_;
  using Thread::block_dim_;
  using Thread::grid_dim_;
  using Thread::rank_;
  using Thread::size_;
  using Thread::thread_;

  Block* block = nullptr;
  char* stack = nullptr;
  void* saved = nullptr;       // where the fiber continues
  void* sanitizer = nullptr;   // ThreadSanitizer's fiber
  void* fake_stack = nullptr;  // AddressSanitizer's stack for locals
  std::uint64_t grid = 0;      // the number of the grid that it ran in last
  State state = State::ended;
  std::source_location where{};  // of the operation that it waits in
};

struct Warp {
  unsigned existing = 0, ready = 0;  // masks of lanes
  int last_lane = -1;                // the lane that has run last
  int rounds_used = 0;               // those at the beginning of `rounds`
  Round rounds[on_gpu::kWarp + 1];   // each lane is in at most one that has not ended
};

struct SharedVariable {
  const void* key = nullptr;
  const char* name = nullptr;
  std::size_t bytes = 0;
  char* memory = nullptr;
  char sync = 0;
};

struct Block {
  uint3 index{};
  std::vector<Fiber*> fibers{};
  std::vector<Warp> warps{};
  unsigned ready_warps = 0;
  int last_warp = 0;  // the warp that has run last
  int alive = 0, ended = 0, arrived = 0;
  int count = 0, results[2]{};
  int phase = 0;   // the parity of the barriers so far
  char sync[2]{};  // two, so that a thread that leaves a barrier learns nothing from one that is at the next
  std::source_location barrier{};
  std::deque<SharedVariable> shared{};
};

// Texts for messages: "block (0,1,0)", "threads 0-15, 31".
std::string text_of(const uint3& index);
std::string ranges_of(const std::vector<int>& ranks);
std::string text_of(const std::source_location& where);
std::string where_threads_wait(const Block& block);

}  // namespace heddle::emulated_gpu
