#include "executor/executor.h"

#include <algorithm>
#include <cstdlib>
#include <cxxabi.h>
#include <exception>
#include <new>
#include <numeric>
#include <random>
#include <sys/mman.h>
#include <thread>

#include "executor/runner.h"
#include "executor/sanitizers.h"
#include "executor/stack_switch.h"

namespace heddle::emulated_gpu {
namespace {

constexpr std::size_t kStack = 128 << 10;
constexpr std::size_t kPage = 4096;
constexpr unsigned kNoSync = 1;  // __tsan_switch_to_fiber: the switch orders nothing
// ThreadSanitizer knows 8,128 threads, and each takes several of the 65,530 mappings that Linux allows a process. Beyond
// this number of CUDA threads in the process those of one grid share its fibers, which hides races between the two. Each
// host thread may have kFewFibers nevertheless.
constexpr std::size_t kSanitizerFibers = 2500, kFewFibers = 64;
std::atomic<std::size_t> sanitizer_fibers{0};

}  // namespace

// The first function on a fiber's stack.
struct FiberEntry {
  static void run() {
    Runner& runner = Runner::here();
    if (__sanitizer_finish_switch_fiber) {
      __sanitizer_finish_switch_fiber(nullptr, &runner.stack_low_, &runner.stack_bytes_);
    }
    tsan_acquire(&runner.work_->begin);
    Fiber& fiber = *runner.current_;
    const Grid& grid = runner.work_->grid;
    std::string thrown;
    try {
      grid.kernel->run(grid.argument, fiber);
    } catch (const std::exception& error) {
      thrown = std::string("an exception: ") + error.what();
    } catch (...) {
      thrown = "an exception";
    }
    if (!thrown.empty()) runner.fail(fiber, cudaErrorLaunchFailure, std::move(thrown));
    tsan_release(&runner.work_->sync);
    fiber.state = State::ended;
    runner.suspend(fiber);
    std::terminate();
  }
};

void Work::fail(KernelFailure why) {
  std::lock_guard guard(mutex);
  if (!failed.exchange(true)) failure = std::move(why);
}

Runner& Runner::here() {
  // On the heap: the loader has little room for variables of threads of a library that Python loads.
  thread_local const auto runner = std::make_unique<Runner>();
  return *runner;
}

Runner::~Runner() {
  for (Fiber& fiber : fibers_) {
    munmap(fiber.stack - kPage, kStack + kPage);
    if (!fiber.sanitizer) continue;
    __tsan_destroy_fiber(fiber.sanitizer);
    --sanitizer_fibers;
  }
}

// xorshift64*.
std::uint64_t Runner::random() {
  random_ ^= random_ >> 12;
  random_ ^= random_ << 25;
  random_ ^= random_ >> 27;
  return random_ * 0x2545f4914f6cdd1dULL;
}

// One bit of the mask: the next after `last`, or a random one.
int Runner::pick(unsigned mask, int last) {
  const unsigned shift =
      shuffled_ ? static_cast<unsigned>(random() >> 59) : static_cast<unsigned>(last + 1) % 32;
  const unsigned turned = mask >> shift | mask << ((32 - shift) % 32);
  return static_cast<int>((static_cast<unsigned>(__builtin_ctz(turned)) + shift) % 32);
}

// In half of the shuffled grids a warp runs until it has to wait, far ahead of others, as on a GPU whose other warps wait for memory.
int Runner::next_warp(const Block& block) {
  const unsigned last = static_cast<unsigned>(block.last_warp);
  if (stays_ && last < kWarps && (block.ready_warps >> last & 1)) return block.last_warp;
  return pick(block.ready_warps, block.last_warp - 1);
}

char* Runner::new_stack() {
  void* memory = mmap(nullptr, kStack + kPage, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  if (!with_tsan()) mprotect(memory, kPage, PROT_NONE);
  return static_cast<char*>(memory) + kPage;
}

// A fiber that waits for work. With ThreadSanitizer one that has not run in this grid, so that no two CUDA threads of a
// grid are one thread to it, nor share a stack, as long as there are fewer than kSanitizerFibers.
Fiber& Runner::take_fiber() {
  const bool used = spare_fibers_.empty() || spare_fibers_.front()->grid == grids_;
  const bool may_add = sanitizer_fibers < kSanitizerFibers || fibers_.size() < kFewFibers;
  if (spare_fibers_.empty() || (with_tsan() && used && may_add)) {
    Fiber& fiber = fibers_.emplace_back();
    fiber.stack = new_stack();
    if (with_tsan()) {
      fiber.sanitizer = __tsan_create_fiber(0);
      ++sanitizer_fibers;
    }
    return fiber;
  }
  Fiber& fiber = *spare_fibers_.front();
  spare_fibers_.pop_front();
  return fiber;
}

void Runner::start_fiber(Block& block, int rank) {
  Fiber& fiber = take_fiber();
  fiber.grid = grids_;
  const dim3& dim = work_->grid.threads;
  const auto linear = static_cast<unsigned>(rank);
  fiber.thread_ = {linear % dim.x, linear / dim.x % dim.y, linear / dim.x / dim.y};
  fiber.block_ = block.index;
  fiber.block_dim_ = dim;
  fiber.grid_dim_ = work_->grid.blocks;
  fiber.rank_ = rank;
  fiber.size_ = static_cast<int>(dim.x * dim.y * dim.z);
  fiber.block = &block;
  fiber.state = State::ready;
  fiber.fake_stack = nullptr;
  asan_unpoison(fiber.stack, kStack);
  fiber.saved = prepare_stack(fiber.stack, kStack, &FiberEntry::run);
  block.fibers.push_back(&fiber);
}

// False if no block is left to start.
bool Runner::start_block() {
  const std::size_t number = work_->next++;
  if (number >= work_->order.size()) return false;
  if (spare_blocks_.empty()) spare_blocks_.push_back(std::make_unique<Block>());
  resident_.push_back(std::move(spare_blocks_.back()));
  spare_blocks_.pop_back();
  Block& block = *resident_.back();
  const dim3& grid = work_->grid.blocks;
  const dim3& dim = work_->grid.threads;
  const std::uint32_t linear = work_->order[number];
  const int size = static_cast<int>(dim.x * dim.y * dim.z);
  block.index = {linear % grid.x, linear / grid.x % grid.y, linear / grid.x / grid.y};
  block.alive = size;
  block.ended = block.arrived = block.count = block.phase = 0;
  block.last_warp = stays_ ? kWarps : 0;
  block.warps.resize(static_cast<std::size_t>((size + on_gpu::kWarp - 1) / on_gpu::kWarp));
  for (std::size_t w = 0; w < block.warps.size(); ++w) {
    const int lanes = std::min(on_gpu::kWarp, size - static_cast<int>(w) * on_gpu::kWarp);
    block.warps[w].existing = block.warps[w].ready = ~0u >> (on_gpu::kWarp - lanes);
    block.warps[w].rounds_used = 0;
    block.warps[w].last_lane = -1;
  }
  block.ready_warps = ~0u >> (kWarps - static_cast<int>(block.warps.size()));
  for (int rank = 0; rank < size; ++rank) start_fiber(block, rank);
  return true;
}

void Runner::end_block(Block& block) {
  check_shared(block);
  for (Fiber* fiber : block.fibers) spare_fibers_.push_back(fiber);
  block.fibers.clear();
  for (SharedVariable& one : block.shared) memory_.push_back(one.memory);
  block.shared.clear();
  // ThreadSanitizer would take the release of memory that other fibers have used for a race.
  if (!with_tsan()) release_memory();
}

void Runner::resume(Fiber& fiber) {
  current_ = &fiber;
  tick();
  void* fake_stack = nullptr;
  if (with_tsan()) __tsan_switch_to_fiber(fiber.sanitizer, kNoSync);
  if (__sanitizer_start_switch_fiber) __sanitizer_start_switch_fiber(&fake_stack, fiber.stack, kStack);
  heddle_switch_stack(&saved_, fiber.saved);
  if (__sanitizer_finish_switch_fiber) __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
  current_ = nullptr;
}

void Runner::suspend(Fiber& fiber) {
  if (with_tsan()) __tsan_switch_to_fiber(sanitizer_, kNoSync);
  if (__sanitizer_start_switch_fiber) {
    __sanitizer_start_switch_fiber(fiber.state == State::ended ? nullptr : &fiber.fake_stack, stack_low_,
                                   stack_bytes_);
  }
  heddle_switch_stack(&fiber.saved, saved_);
  if (__sanitizer_finish_switch_fiber) __sanitizer_finish_switch_fiber(fiber.fake_stack, nullptr, nullptr);
}

// What the fiber has allocated is freed here: it never returns.
void Runner::fail(Fiber& fiber, cudaError_t error, std::string what) {
  work_->fail({error, "kernel " + name_of(*work_->grid.kernel) + ", block " + text_of(fiber.block_) +
                          ", thread " + text_of(fiber.thread_) + ": " + what});
  std::string().swap(what);
  tsan_release(&work_->sync);
  fiber.state = State::ended;
  suspend(fiber);
  std::terminate();
}

// Puts another warp first, since the scheduler may stay with a warp while one of its lanes is ready.
void Runner::pause(Fiber& fiber) {
  fiber.block->last_warp = stays_ ? kWarps : fiber.block->last_warp + 1;
  if (++pauses_ % 64 == 0) std::this_thread::yield();
  suspend(fiber);
}

void Runner::wake(Block& block, int rank) {
  block.fibers[static_cast<std::size_t>(rank)]->state = State::ready;
  block.warps[static_cast<std::size_t>(rank / on_gpu::kWarp)].ready |= 1u << rank % on_gpu::kWarp;
  block.ready_warps |= 1u << rank / on_gpu::kWarp;
}

void Runner::ended(Fiber& fiber) {
  Block& block = *fiber.block;
  --block.alive;
  ++block.ended;
  if (block.alive > 0 && block.arrived == block.alive) stuck(block);
}

// ThreadSanitizer keeps the clocks of a block's barriers until their memory is freed. A later block must not get them,
// or races between the two would be hidden.
void Runner::put_away(std::unique_ptr<Block> block) {
  if (!with_tsan()) spare_blocks_.push_back(std::move(block));
}

// Runs one thread of one block up to its next wait. False if the grid has ended or failed.
bool Runner::run_some() {
  if (work_->failed) return false;
  while (resident_.size() < most_resident_ && start_block()) {
  }
  if (resident_.empty()) return false;
  const std::size_t which = resident_.size() > 1 ? random() % resident_.size() : 0;
  Block& block = *resident_[which];
  if (block.ready_warps == 0) {
    if (block.alive > 0) {
      stuck(block);
      return false;
    }
    end_block(block);
    put_away(std::move(resident_[which]));
    resident_.erase(resident_.begin() + static_cast<std::ptrdiff_t>(which));
    return true;
  }
  const int number = block.last_warp = next_warp(block);
  Warp& warp = block.warps[static_cast<std::size_t>(number)];
  const int lane = warp.last_lane = pick(warp.ready, warp.last_lane);
  Fiber& fiber = *block.fibers[static_cast<std::size_t>(number * on_gpu::kWarp + lane)];
  resume(fiber);
  if (fiber.state != State::ready) {
    // The thread may have been woken by its own arrival: only threads that wait lose their bits.
    warp.ready &= ~(1u << lane);
  }
  if (fiber.state == State::ended) ended(fiber);
  if (warp.ready == 0) block.ready_warps &= ~(1u << number);
  return true;
}

// After a failure: no thread continues.
void Runner::abandon() {
  for (std::unique_ptr<Block>& block : resident_) {
    for (Fiber* fiber : block->fibers) {
      if (with_tsan()) {  // what it has done so far comes before the grid's end
        __tsan_switch_to_fiber(fiber->sanitizer, kNoSync);
        __tsan_release(&work_->sync);
        __tsan_switch_to_fiber(sanitizer_, kNoSync);
      }
      spare_fibers_.push_back(fiber);
    }
    block->fibers.clear();
    for (SharedVariable& one : block->shared) memory_.push_back(one.memory);
    block->shared.clear();
    put_away(std::move(block));
  }
  resident_.clear();
}

void Runner::run(Work& work, std::uint64_t seed) {
  work_ = &work;
  shuffled_ = seed != 0;
  random_ = seed * 0x9e3779b97f4a7c15ULL + 1;
  most_resident_ = shuffled_ ? 1 + random() % 3 : 1;
  stays_ = shuffled_ && random() % 2 == 0;
  ++grids_;
  if (with_tsan()) sanitizer_ = __tsan_get_current_fiber();
  tsan_release(&work.begin);
  try {
    while (run_some()) {
    }
  } catch (const std::exception& error) {
    work.fail({cudaErrorMemoryAllocation, error.what()});
  }
  abandon();
  tsan_acquire(&work.sync);
  release_memory();
  work_ = nullptr;
}

std::string name_of(const on_gpu::emulated::Kernel& kernel) {
  int status = 0;
  char* text = abi::__cxa_demangle(kernel.type->name(), nullptr, nullptr, &status);
  const std::string name = text && status == 0 ? text : kernel.type->name();
  std::free(text);
  return name;
}

bool in_kernel() { return Runner::here().current() != nullptr; }

void fail_in_kernel(cudaError_t error, const std::string& what) {
  Runner& runner = Runner::here();
  runner.fail(*runner.current(), error, what);
}

KernelFailure run_grid(const Grid& grid) {
  Work work(grid);
  work.order.resize(std::size_t{grid.blocks.x} * grid.blocks.y * grid.blocks.z);
  std::iota(work.order.begin(), work.order.end(), 0u);
  if (grid.seed != 0) std::shuffle(work.order.begin(), work.order.end(), std::mt19937_64(grid.seed));
  std::vector<std::thread> others;
  for (int i = 1; i < grid.host_threads; ++i) {
    others.emplace_back(
        [&work, i] { Runner::here().run(work, work.grid.seed + static_cast<std::uint64_t>(i)); });
  }
  Runner::here().run(work, grid.seed);
  for (std::thread& other : others) other.join();
  return work.failure;
}

}  // namespace heddle::emulated_gpu
