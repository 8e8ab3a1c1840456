// Relacy's side of the product's atomics. A cell holds one Relacy object for one schedule; what the product constructs
// over memory that was never destroyed, or uses from a static, gets a new cell.
#pragma once

#include <relacy/atomic.hpp>
#include <relacy/atomic_fence.hpp>
#include <relacy/backoff.hpp>
#include <relacy/base.hpp>
#include <relacy/context.hpp>
#include <relacy/context_base_impl.hpp>
#include <relacy/dyn_thread.hpp>
#include <relacy/stdlib/condition_variable.hpp>
#include <relacy/stdlib/event.hpp>
#include <relacy/stdlib/mutex.hpp>
#include <relacy/stdlib/semaphore.hpp>
#include <relacy/test_suite.hpp>
#include <relacy/thread_local.hpp>
#include <relacy/var.hpp>

#include "standard.h"

namespace model {

struct Cell {
  virtual ~Cell() = default;
  bool dead = false;  // its owner is destroyed, or its memory freed: whoever uses it fails the model
  // Relacy must not count what the model itself allocates.
  static void* operator new(std::size_t bytes) { return (::malloc)(bytes); }
  static void operator delete(void* memory) { (::free)(memory); }
};

class Cells {
 public:
  // The number of the schedule that runs; 0: none does.
  std::uint64_t schedule() const { return schedule_; }
  void begin() {
    cells_.clear();  // those of a schedule that failed belong to a context that is gone
    schedule_ = ++count_;
  }
  void end() {
    for (auto& [owner, cell] : cells_) delete cell;
    cells_.clear();
    schedule_ = 0;
  }
  void add(const void* owner, Cell* cell) {
    Cell*& place = cells_[owner];
    delete place;
    place = cell;
  }
  void remove(const void* owner) {
    if (auto at = cells_.find(owner); at != cells_.end()) at->second->dead = true;
  }
  // The product gave back `bytes` at `memory` without destroying what is there.
  void freed(const void* memory, std::size_t bytes) {
    const auto end = cells_.lower_bound(static_cast<const char*>(memory) + bytes);
    for (auto at = cells_.lower_bound(memory); at != end; ++at) at->second->dead = true;
  }

 private:
  rl::map<const void*, Cell*>::type cells_;
  std::uint64_t schedule_ = 0, count_ = 0;
};

inline Cells cells;

inline void fail(const char* what, const rl::debug_info& where) {
  rl::ctx().fail_test(what, rl::test_result_user_assert_failed, where);
}

// Lets the others run: in loops that wait for them. Relacy takes a yield for a time so long that all stores are seen; that
// would hide what a short pause does not, so only searches that need it to end get one.
inline void step() {
  if (rl::ctx().is_random_sched()) {
    rl::ctx().sched();
  } else {
    rl::yield(1, RL_INFO);
  }
}

// Up to so many steps in which others may run: random schedules alone hardly ever let a thread begin late. Not in a search
// of all schedules.
inline void dawdle(unsigned most) {
  if (!rl::ctx().is_random_sched()) return;
  for (unsigned steps = rl::rand(most + 1); steps > 0; --steps) step();
}

// What a class of the product's standard library holds: its cell, made at construction, or at first use for a static.
template <class Contents> class Held {
 public:
  constexpr Held() = default;
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  ~Held() {
    if (schedule_ != 0 && schedule_ == cells.schedule()) cells.remove(this);
  }
  template <class... Arguments> void make(Arguments... arguments) const {
    rl::ctx().disable_preemption();  // two threads may be the first to use a static
    auto* cell = new Box(arguments...);
    rl::ctx().enable_preemption();
    cells.add(this, cell);
    cell_ = cell;
    schedule_ = cells.schedule();
  }
  bool made() const { return schedule_ == cells.schedule(); }
  Contents& get(const rl::debug_info& where) const {
    if (cell_->dead) fail("used after its end", where);
    return cell_->contents;
  }

 private:
  struct Box : Cell {
    template <class... Arguments> explicit Box(Arguments... arguments) : contents(arguments...) {}
    Contents contents;
  };
  mutable Box* cell_ = nullptr;
  mutable std::uint64_t schedule_ = 0;
};

// Plain data of a model: Relacy reports unordered accesses.
template <class T> class Plain {
 public:
  explicit Plain(T value = T()) : value_(value) {}
  T get() const { return value_(RL_INFO); }
  void set(T value) { value_(RL_INFO) = value; }

 private:
  rl::var<T> value_;
};

}  // namespace model

#undef $
