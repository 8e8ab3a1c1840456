#include "simulation.h"

#include <cstring>
#include <cxxabi.h>
#include <utility>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace heddle::test {
namespace {

constexpr std::size_t kStack = 256 << 10;
// The largest delay before a fiber that was woken runs; other fibers may be faster.
constexpr std::chrono::microseconds kLate{20};

// Stacks of ended fibers for reuse: a simulation takes less time than the kernel needs to clear new memory.
std::vector<std::unique_ptr<char[]>>& spare_stacks() {
  static std::vector<std::unique_ptr<char[]>> stacks;
  return stacks;
}

std::unique_ptr<char[]> take_stack() {
  auto& spare = spare_stacks();
  if (spare.empty()) return std::unique_ptr<char[]>(new char[kStack]);
  auto stack = std::move(spare.back());
  spare.pop_back();
  return stack;
}

}  // namespace

Simulation::~Simulation() {
  for (auto& fiber : fibers_) {
    fiber->killed = true;
    while (!fiber->ended) resume(*fiber);
#if defined(__SANITIZE_THREAD__)
    __tsan_destroy_fiber(fiber->sanitizer);
#endif
    spare_stacks().push_back(std::move(fiber->stack));
  }
}

int Simulation::start(std::function<void()> body, Duration after) {
  fibers_.push_back(std::make_unique<Fiber>());
  Fiber& fiber = *fibers_.back();
  fiber.body = std::move(body);
  fiber.stack = take_stack();
  getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = fiber.stack.get();
  fiber.context.uc_stack.ss_size = kStack;
  // Passes the pointer in two halves, since makecontext() passes only ints.
  const auto self = reinterpret_cast<std::uintptr_t>(this);
  makecontext(&fiber.context, reinterpret_cast<void (*)()>(&Simulation::enter), 2,
              static_cast<unsigned>(self), static_cast<unsigned>(self >> 32));
#if defined(__SANITIZE_THREAD__)
  fiber.sanitizer = __tsan_create_fiber(0);
#endif
  resume_at(fiber, now_ + after);
  return static_cast<int>(fibers_.size()) - 1;
}

void Simulation::enter(unsigned low, unsigned high) {
  auto& self = *reinterpret_cast<Simulation*>(std::uintptr_t{low} | std::uintptr_t{high} << 32);
#if defined(__SANITIZE_ADDRESS__)
  const void* bottom = nullptr;
  std::size_t size = 0;
  __sanitizer_finish_switch_fiber(nullptr, &bottom, &size);
  self.main_.context.uc_stack.ss_sp = const_cast<void*>(bottom);
  self.main_.context.uc_stack.ss_size = size;
#endif
  Fiber& fiber = self.current();
  try {
    if (!fiber.killed) fiber.body();
  } catch (const Killed&) {
  }
  fiber.ended = true;
  self.switch_to(&self.main_);
}

void Simulation::at(Time when, std::function<void()> event) {
  events_.push({when, random_(), std::move(event)});
}

void Simulation::resume_at(Fiber& fiber, Time when) {
  at(when, [this, &fiber, turn = fiber.turn] {
    if (fiber.turn == turn && !fiber.ended) resume(fiber);
  });
}

void Simulation::wake(int fiber) {
  resume_at(*fibers_[static_cast<std::size_t>(fiber)], now_ + delay(kLate));
}

void Simulation::kill(int fiber) {
  fibers_[static_cast<std::size_t>(fiber)]->killed = true;
  wake(fiber);
}

void Simulation::sleep() {
  switch_to(&main_);
  if (current().killed) throw Killed();
}

void Simulation::sleep_until(Time until) {
  resume_at(current(), until);
  sleep();
}

void Simulation::resume(Fiber& fiber) {
  ++fiber.turn;
  switch_to(&fiber);
}

void Simulation::switch_to(Fiber* next) {
  Fiber* before = std::exchange(current_, next);
  void* exceptions = abi::__cxa_get_globals();
  std::memcpy(before->exceptions.data(), exceptions, before->exceptions.size());
  std::memcpy(exceptions, next->exceptions.data(), next->exceptions.size());
#if defined(__SANITIZE_ADDRESS__)
  void* fake = nullptr;
  __sanitizer_start_switch_fiber(before->ended ? nullptr : &fake, next->context.uc_stack.ss_sp,
                                 next->context.uc_stack.ss_size);
#endif
#if defined(__SANITIZE_THREAD__)
  if (!main_.sanitizer) main_.sanitizer = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(next->sanitizer, 0);
#endif
  swapcontext(&before->context, &next->context);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
}

bool Simulation::run() {
  while (!events_.empty()) {
    auto what = std::move(const_cast<Event&>(events_.top()).what);
    now_ = events_.top().when;
    events_.pop();
    what();
  }
  for (const auto& fiber : fibers_) {
    if (!fiber->ended) return false;
  }
  return true;
}

}  // namespace heddle::test
