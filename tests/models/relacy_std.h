// The parts of the standard library that the product synchronises with, as Relacy runs them: namespace model_std is std
// with these in place of its own. Every memory order passes through model::weakened(), so that a model can be shown to fail.
#pragma once

#include "cells.h"
#include "sites.h"

namespace model {

inline rl::debug_info info(const std::source_location& at) {
  return {at.function_name(), at.file_name(), static_cast<unsigned>(at.line())};
}

// std::atomic::wait as libstdc++ has it: a count of waiters, which the notifier looks at, and a futex.
template <class T> struct AtomicContents {
  explicit AtomicContents(T value) : atomic(value), waiters(0) {}
  rl::atomic<T> atomic;
  rl::atomic<int> waiters;
  rl::waitset<16> asleep{};
};

}  // namespace model

namespace model_std {

using namespace ::std;

using memory_order = rl::memory_order;
constexpr memory_order memory_order_relaxed = rl::mo_relaxed;
constexpr memory_order memory_order_acquire = rl::mo_acquire;
constexpr memory_order memory_order_release = rl::mo_release;
constexpr memory_order memory_order_acq_rel = rl::mo_acq_rel;
constexpr memory_order memory_order_seq_cst = rl::mo_seq_cst;
using At = std::source_location;

inline void atomic_thread_fence(memory_order order, At at = At::current()) {
  order = model::weakened(order, model::Kind::fence, at);
  if (order != rl::mo_relaxed) rl::atomic_thread_fence(order, model::info(at));
}

namespace this_thread {
inline void yield() { model::step(); }
}  // namespace this_thread

template <class T> class atomic {
 public:
  constexpr atomic(T value = T()) : first_(value) {
    if (!std::is_constant_evaluated() && model::cells.schedule() != 0) held_.make(value);
  }
  T load(memory_order order = rl::mo_seq_cst, At at = At::current()) const {
    return contents(at).atomic.load(model::weakened(order, model::Kind::load, at), model::info(at));
  }
  void store(T value, memory_order order = rl::mo_seq_cst, At at = At::current()) {
    contents(at).atomic.store(value, model::weakened(order, model::Kind::store, at), model::info(at));
  }
  T exchange(T value, memory_order order = rl::mo_seq_cst, At at = At::current()) {
    return contents(at).atomic.exchange(value, model::weakened(order, model::Kind::exchange, at),
                                        model::info(at));
  }
  T fetch_add(T value, memory_order order = rl::mo_seq_cst, At at = At::current()) {
    return contents(at).atomic.fetch_add(value, model::weakened(order, model::Kind::fetch_add, at),
                                         model::info(at));
  }
  T fetch_sub(T value, memory_order order = rl::mo_seq_cst, At at = At::current()) {
    return contents(at).atomic.fetch_sub(value, model::weakened(order, model::Kind::fetch_sub, at),
                                         model::info(at));
  }
  bool compare_exchange_strong(T& old, T value, memory_order order = rl::mo_seq_cst, At at = At::current()) {
    order = model::weakened(order, model::Kind::compare_exchange, at);
    return contents(at).atomic.compare_exchange_strong(old, value, order, model::info(at));
  }
  bool compare_exchange_weak(T& old, T value, memory_order order, memory_order failed,
                             At at = At::current()) {
    order = model::weakened(order, model::Kind::compare_exchange, at);
    return contents(at).atomic.compare_exchange_weak(old, value, order, model::info(at), failed,
                                                     model::info(at));
  }
  operator T() const { return load(); }
  T operator=(T value) {
    store(value);
    return value;
  }

  void wait(T old, memory_order order = rl::mo_seq_cst, At at = At::current()) const {
    auto& mine = contents(at);
    if (load(order, at) != old) return;
    mine.waiters.fetch_add(1, rl::mo_seq_cst, model::info(at));
    while (load(order, at) == old) {
      // The system compares and sleeps in one step. What it compares may still lie in the store buffer of another core,
      // unless that store was sequentially consistent.
      if (mine.atomic.load(rl::mo_seq_cst, model::info(at)) == old) {
        mine.asleep.park_current(rl::ctx(), false, false, false, model::info(at));
      }
    }
    mine.waiters.fetch_sub(1, rl::mo_release, model::info(at));
  }
  void notify_all(At at = At::current()) {
    auto& mine = contents(at);
    if (mine.waiters.load(rl::mo_seq_cst, model::info(at)) != 0)
      mine.asleep.unpark_all(rl::ctx(), model::info(at));
  }
  void notify_one(At at = At::current()) { notify_all(at); }

 private:
  model::AtomicContents<T>& contents(const At& at) const {
    if (!held_.made()) held_.make(first_);
    return held_.get(model::info(at));
  }
  model::Held<model::AtomicContents<T>> held_;
  T first_;
};

class mutex {
 public:
  void lock() { contents().lock(RL_INFO); }
  bool try_lock() { return contents().try_lock(RL_INFO); }
  void unlock() { contents().unlock(RL_INFO); }
  rl::mutex& contents() {
    if (!held_.made()) held_.make();
    return held_.get(RL_INFO);
  }

 private:
  model::Held<rl::mutex> held_;
};

class condition_variable {
 public:
  void notify_one() { contents().notify_one(RL_INFO); }
  void notify_all() { contents().notify_all(RL_INFO); }
  template <class Predicate> void wait(unique_lock<mutex>& lock, Predicate done) {
    while (!done()) contents().wait(lock.mutex()->contents(), RL_INFO);
  }
  // The time is over whenever the scheduler likes.
  template <class Time, class Predicate> bool wait_for(unique_lock<mutex>& lock, Time time, Predicate done) {
    while (!done()) {
      if (!contents().wait_for(lock.mutex()->contents(), time, RL_INFO)) return done();
    }
    return true;
  }

 private:
  rl::condition_variable& contents() {
    if (!held_.made()) held_.make();
    return held_.get(RL_INFO);
  }
  model::Held<rl::condition_variable> held_;
};

}  // namespace model_std
