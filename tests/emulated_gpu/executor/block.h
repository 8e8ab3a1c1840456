// The state of the blocks that a host thread runs. Used by the executor alone.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <source_location>
#include <string>
#include <vector>

#include "executor/executor.h"

namespace heddle::emulated_gpu {

class Runner;
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
  State state = State::ended;
  std::source_location where{};  // of the operation that it waits in
};

struct Warp {
  unsigned existing = 0, ready = 0;  // masks of lanes
  int rounds_used = 0;               // those at the beginning of `rounds`
  Round rounds[on_gpu::kWarp + 1];      // each lane is in at most one that has not ended
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
  int alive = 0, ended = 0, arrived = 0;
  int count = 0, results[2]{};
  int phase = 0;   // the parity of the barriers so far
  char sync[2]{};  // two, so that a thread that leaves a barrier learns nothing from one that is at the next
  std::source_location barrier{};
  std::deque<SharedVariable> shared{};
};

// What the host threads that run a grid share.
struct Work {
  explicit Work(const Grid& what) : grid(what) {}
  const Grid& grid;
  std::vector<std::uint32_t> order{};
  std::atomic<std::size_t> next{0};
  std::atomic<bool> failed{false};
  std::mutex mutex;  // guards failure
  KernelFailure failure{};
  char sync = 0;
  void fail(KernelFailure why);
};

// Runs blocks on the calling host thread. A thread keeps its runner, and so its stacks.
class Runner {
 public:
  static Runner& here();
  ~Runner();
  void run(Work& work, std::uint64_t seed);

  Fiber* current() const { return current_; }
  void suspend(Fiber& fiber);
  [[noreturn]] void fail(Fiber& fiber, cudaError_t error, std::string what);
  void* shared(Fiber& fiber, const void* key, std::size_t bytes, const char* name);
  int barrier(Fiber& fiber, bool what, const std::source_location& where);
  void wake(Block& block, int rank);
  void pause(Fiber& fiber);

 private:
  friend struct FiberEntry;
  bool start_block();
  void start_fiber(Block& block, int rank);
  void end_block(Block& block);
  bool run_some();
  void resume(Fiber& fiber);
  void ended(Fiber& fiber);
  void complete_barrier(Block& block);
  void check_shared(Block& block);
  void stuck(Block& block);
  void abandon();
  void release_memory();
  void put_away(std::unique_ptr<Block> block);
  char* take_stack();
  void* take_sanitizer_fiber();
  int pick(unsigned mask, int last);
  std::uint64_t random();

  Work* work_ = nullptr;
  std::uint64_t random_ = 0;
  bool shuffled_ = false;
  std::size_t most_resident_ = 1;
  std::vector<std::unique_ptr<Block>> resident_{};
  std::vector<std::unique_ptr<Block>> spare_blocks_{};
  std::deque<Fiber> fibers_{};
  std::vector<Fiber*> spare_fibers_{};
  std::vector<char*> stacks_{}, spare_stacks_{};
  std::vector<char*> memory_{};  // shared memory of ended blocks
  std::vector<void*> sanitizer_fibers_{};
  std::size_t next_sanitizer_fiber_ = 0;
  Fiber* current_ = nullptr;
  void* saved_ = nullptr;  // where the scheduler continues
  void* sanitizer_ = nullptr;
  const void* stack_low_ = nullptr;
  std::size_t stack_bytes_ = 0;
  int last_warp_ = 0, last_lane_ = 0;
  unsigned pauses_ = 0;
};

// Texts for messages: "block (0,1,0)", "threads 0-15, 31".
std::string text_of(const uint3& index);
std::string ranges_of(const std::vector<int>& ranks);
std::string text_of(const std::source_location& where);
std::string where_threads_wait(const Block& block);

}  // namespace heddle::emulated_gpu
