// The operations of a CUDA thread: barriers, shuffles, votes and shared memory.
#include <cstdlib>
#include <malloc.h>
#include <new>
#include <string_view>

#include "executor/runner.h"
#include "executor/sanitizers.h"

namespace heddle::emulated_gpu {
namespace {

constexpr std::size_t kGuard = 1024;  // bytes behind a shared variable that must stay as they are
constexpr unsigned char kGuardByte = 0xfb, kFreshByte = 0xff;

// Written through volatile, so that no sanitizer sees an access.
void fill(char* at, std::size_t bytes, unsigned char value) {
  volatile char* to = at;
  for (std::size_t i = 0; i < bytes; ++i) to[i] = static_cast<char>(value);
}

Warp& warp_of(Fiber& fiber) { return fiber.block->warps[static_cast<std::size_t>(fiber.warp())]; }

// The round with this mask that still waits for lanes, or a new one.
Round& round_of(Warp& warp, unsigned mask, Round::Kind kind) {
  Round* unused = nullptr;
  for (int i = 0; i < warp.rounds_used; ++i) {
    Round& round = warp.rounds[i];
    if (round.mask == mask && round.arrived != mask) return round;
    if (round.arrived == round.mask && round.unread == 0) unused = &round;
  }
  if (!unused) unused = &warp.rounds[warp.rounds_used++];
  unused->kind = kind;
  unused->mask = mask;
  unused->arrived = 0;
  unused->unread = mask;
  return *unused;
}

// Waits for the other lanes of the mask, and returns the round with the values of all. The caller calls leave().
Round& meet(Fiber& fiber, Round::Kind kind, std::uint64_t value, unsigned mask,
            const std::source_location& where) {
  Runner& runner = Runner::here();
  Warp& warp = warp_of(fiber);
  const unsigned own = 1u << fiber.lane();
  fiber.where = where;
  if ((mask & own) == 0) {
    runner.fail(fiber, cudaErrorLaunchFailure, "its lane is not in the mask, at " + text_of(where));
  }
  Round& round = round_of(warp, mask & warp.existing, kind);
  if (round.kind != kind) {
    runner.fail(fiber, cudaErrorLaunchFailure,
                "lanes of a warp meet in different operations, at " + text_of(where));
  }
  round.values[fiber.lane()] = value;
  round.arrived |= own;
  if (kind == Round::Kind::barrier) tsan_release(&round.sync);
  fiber.state = State::at_warp_operation;
  if (round.arrived == round.mask) {
    const int first = fiber.warp() * on_gpu::kWarp;
    for (unsigned left = round.mask; left != 0; left &= left - 1) {
      runner.wake(*fiber.block, first + __builtin_ctz(left));
    }
  }
  runner.suspend(fiber);
  if (kind == Round::Kind::barrier) tsan_acquire(&round.sync);
  return round;
}

void leave(Fiber& fiber, Round& round) { round.unread &= ~(1u << fiber.lane()); }

bool is_intact(const SharedVariable& one) {
  const volatile char* guard = one.memory + one.bytes;
  for (std::size_t i = 0; i < kGuard; ++i) {
    if (guard[i] != static_cast<char>(kGuardByte)) return false;
  }
  return true;
}

}  // namespace

// Memory is allocated as the scheduler, whose clock every thread of the block takes over: ThreadSanitizer then
// reports no race with the allocation.
void* Runner::shared(Fiber& fiber, const void* key, std::size_t bytes, const char* name) {
  Block& block = *fiber.block;
  SharedVariable* found = nullptr;
  for (SharedVariable& one : block.shared) {
    if (one.key == key) found = &one;
  }
  if (!found) {
    if (!key) bytes = work_->grid.shared_bytes;
    if (with_tsan()) __tsan_switch_to_fiber(sanitizer_, 1);
    // AddressSanitizer has its own guards.
    const std::size_t all = bytes + (with_asan() ? 0 : kGuard);
    void* memory = memalign(16, all ? all : 1);  // exactly so many bytes, for AddressSanitizer
    if (!memory) throw std::bad_alloc();
    found = &block.shared.emplace_back();
    found->key = key;
    found->name = name;
    found->bytes = bytes;
    found->memory = static_cast<char*>(memory);
    tsan_release(&found->sync);
    if (with_tsan()) __tsan_switch_to_fiber(fiber.sanitizer, 1);
    fill(found->memory, bytes, kFreshByte);
    if (!with_asan()) fill(found->memory + bytes, kGuard, kGuardByte);
  }
  tsan_acquire(&found->sync);
  return found->memory;
}

void Runner::release_memory() {
  for (char* memory : memory_) std::free(memory);
  memory_.clear();
}

void Runner::check_shared(Block& block) {
  if (with_asan()) return;
  for (const SharedVariable& one : block.shared) {
    if (is_intact(one)) continue;
    work_->fail({cudaErrorIllegalAddress, "kernel " + name_of(*work_->grid.kernel) + ", block " +
                                              text_of(block.index) +
                                              ": a thread wrote behind the shared variable '" + one.name +
                                              "' of " + std::to_string(one.bytes) + " bytes"});
  }
}

void Runner::complete_barrier(Block& block) {
  if (block.ended > 0) return stuck(block);
  block.results[block.phase] = block.count;
  block.phase ^= 1;
  block.arrived = block.count = 0;
  for (int rank = 0; rank < static_cast<int>(block.fibers.size()); ++rank) wake(block, rank);
}

int Runner::barrier(Fiber& fiber, bool what, const std::source_location& where) {
  Block& block = *fiber.block;
  const int phase = block.phase;
  tsan_release(&block.sync[phase]);
  fiber.state = State::at_barrier;
  fiber.where = where;
  if (block.arrived == 0) block.barrier = where;
  const bool same = where.line() == block.barrier.line() &&
                    std::string_view(where.file_name()) == block.barrier.file_name();
  if (!same) {
    // A statement of its own frees what it needs: fail() does not return.
    std::string text = "divergent barrier: it waits at " + text_of(where) + "; " + where_threads_wait(block);
    fail(fiber, cudaErrorLaunchFailure, std::move(text));
  }
  ++block.arrived;
  block.count += what;
  if (block.arrived == block.alive) complete_barrier(block);
  suspend(fiber);
  tsan_acquire(&block.sync[phase]);
  return block.results[phase];
}

void Runner::stuck(Block& block) {
  work_->fail({cudaErrorLaunchFailure, "kernel " + name_of(*work_->grid.kernel) + ", block " +
                                           text_of(block.index) +
                                           ": divergent barrier: " + where_threads_wait(block)});
}

}  // namespace heddle::emulated_gpu

namespace heddle::on_gpu {

using namespace emulated_gpu;

namespace {

Fiber& fiber_of(Thread& thread) { return static_cast<Fiber&>(thread); }

}  // namespace

void* Thread::shared(const void* key, std::size_t bytes, const char* name) {
  return Runner::here().shared(fiber_of(*this), key, bytes, name);
}

int Thread::block_barrier(bool what, const Where& where) {
  return Runner::here().barrier(fiber_of(*this), what, where);
}

void Thread::warp_barrier(unsigned mask, Where where) {
  Fiber& fiber = fiber_of(*this);
  leave(fiber, meet(fiber, Round::Kind::barrier, 0, mask, where));
}

std::uint64_t Thread::exchange(std::uint64_t value, int from, unsigned mask, const Where& where) {
  Fiber& fiber = fiber_of(*this);
  Round& round = meet(fiber, Round::Kind::exchange, value, mask, where);
  if ((round.arrived >> from & 1u) == 0) {
    std::string text = "a shuffle reads lane " + std::to_string(from) + ", which takes no part in it, at ";
    text += text_of(where);
    Runner::here().fail(fiber, cudaErrorLaunchFailure, std::move(text));
  }
  value = round.values[from];
  leave(fiber, round);
  return value;
}

unsigned Thread::match(std::uint64_t value, std::uint64_t wanted, unsigned mask, const Where& where) {
  Fiber& fiber = fiber_of(*this);
  Round& round = meet(fiber, Round::Kind::match, value, mask, where);
  unsigned equal = 0;
  for (unsigned left = round.mask; left != 0; left &= left - 1) {
    const int lane = __builtin_ctz(left);
    if (round.values[lane] == wanted) equal |= 1u << lane;
  }
  leave(fiber, round);
  return equal;
}

// Counts what the scheduler does, and how often it is read, so that a seed gives the same values again.
long long Thread::clock() { return Runner::here().tick(); }

void Thread::pause() { Runner::here().pause(fiber_of(*this)); }

void Thread::trap() { Runner::here().fail(fiber_of(*this), cudaErrorLaunchFailure, "a trap"); }

}  // namespace heddle::on_gpu
