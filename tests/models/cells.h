// Relacy's objects behind the engine's atomics. A Cell holds one Relacy object during one schedule. An atomic
// gets a new cell if it is constructed again in the same memory, or is static and used in a new schedule.
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
  // Whether the owner was destroyed or its memory was freed. A use after that fails the model.
  bool dead = false;
  // Uses malloc, so that Relacy does not track the model's own allocations.
  static void* operator new(std::size_t bytes) { return (::malloc)(bytes); }
  static void operator delete(void* memory) { (::free)(memory); }
};

class Cells {
 public:
  // Number of the current schedule; 0 between schedules.
  std::uint64_t schedule() const { return schedule_; }
  void begin() {
    cells_.clear();  // leaks the cells of a failed schedule: its Relacy context no longer exists
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
  // Marks the cells of all owners in memory that was freed as dead.
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

// Lets other threads run; called in loops that wait for another thread. In a bounded search only Relacy's
// yield makes such a loop end. Random schedules do without it: it makes all stores visible, which would hide
// bugs.
inline void step() {
  if (rl::ctx().is_random_sched()) {
    rl::ctx().sched();
  } else {
    rl::yield(1, RL_INFO);
  }
}

// Delays this thread: lets other threads run for up to `most` steps, since random schedules alone rarely
// delay a thread for long. Does nothing in a bounded search.
inline void dawdle(unsigned most) {
  if (!rl::ctx().is_random_sched()) return;
  for (unsigned steps = rl::rand(most + 1); steps > 0; --steps) step();
}

// The handle by which a class of model_std holds its Relacy object. The constructor of that class makes the
// object; for a static variable its first use in a schedule does.
template <class Contents> class Held {
 public:
  constexpr Held() = default;
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  ~Held() {
    if (schedule_ != 0 && schedule_ == cells.schedule()) cells.remove(this);
  }
  template <class... Arguments> void make(Arguments... arguments) const {
    rl::ctx().disable_preemption();  // two threads may use a static variable first at the same time
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

// Non-atomic data of a model. Relacy reports accesses that are not ordered as data races.
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
