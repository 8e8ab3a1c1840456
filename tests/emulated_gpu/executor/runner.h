// The scheduler of the blocks that a host thread runs. Used by the executor alone.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <source_location>
#include <string>
#include <vector>

#include "executor/block.h"

namespace heddle::emulated_gpu {

// What the host threads that run a grid share.
struct Work {
  explicit Work(const Grid& what) : grid(what) {}
  const Grid& grid;
  std::vector<std::uint32_t> order{};
  std::atomic<std::size_t> next{0};
  std::atomic<bool> failed{false};
  std::mutex mutex;  // guards failure
  KernelFailure failure{};
  char begin = 0, sync = 0;  // ThreadSanitizer synchronises the grid's begin and end by their addresses
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
  long long tick() { return clock_ += 1000; }

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
  static char* new_stack();
  Fiber& take_fiber();
  int next_warp(const Block& block);
  int pick(unsigned mask, int last);
  std::uint64_t random();

  Work* work_ = nullptr;
  std::uint64_t random_ = 0;
  bool shuffled_ = false, stays_ = false;
  std::size_t most_resident_ = 1;
  std::vector<std::unique_ptr<Block>> resident_{};
  std::vector<std::unique_ptr<Block>> spare_blocks_{};
  std::deque<Fiber> fibers_{};
  std::deque<Fiber*> spare_fibers_{};  // those that have waited longest come first
  std::vector<char*> memory_{};        // shared memory of ended blocks
  std::uint64_t grids_ = 0;            // that this thread has run
  Fiber* current_ = nullptr;
  void* saved_ = nullptr;  // where the scheduler continues
  void* sanitizer_ = nullptr;
  const void* stack_low_ = nullptr;
  std::size_t stack_bytes_ = 0;
  unsigned pauses_ = 0;
  long long clock_ = 0;
};

}  // namespace heddle::emulated_gpu
