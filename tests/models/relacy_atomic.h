// std::atomic on Relacy. Every memory order passes through model::weakened(), so that a model can be shown to
// fail.
#pragma once

#include "cells.h"
#include "sites.h"

namespace model {

inline rl::debug_info info(const std::source_location& at) {
  return {at.function_name(), at.file_name(), static_cast<unsigned>(at.line())};
}

// The type of which Relacy keeps an atomic: T, but without const for pointers to const, which it does not
// support.
template <class T> struct Stored { using Value = T; };
template <class T> struct Stored<const T*> { using Value = T*; };

// Selects the constructor for static atomics: such an atomic exists, with the value zero, before all threads,
// whichever thread uses it first.
struct FromTheStart {};

// What an atomic holds. std::atomic::wait is as in libstdc++: a count of waiters, which the notifier checks,
// and a futex.
template <class T> struct AtomicContents {
  using Value = typename Stored<T>::Value;
  static Value stored(T value) { return (Value)value; }
  explicit AtomicContents(T value) : waiters(0) { made.emplace(stored(value)); }
  explicit AtomicContents(FromTheStart) : waiters(0) { ever.emplace(); }
  template <class Do> decltype(auto) with(Do act) { return made ? act(*made) : act(*ever); }

  std::optional<rl::atomic<Value>> made;
  std::optional<rl::generic_atomic<Value, true>> ever;
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
  using Contents = model::AtomicContents<T>;

 public:
  constexpr atomic(T value = T()) : zero_(value == T()) {
    if (!std::is_constant_evaluated() && model::cells.schedule() != 0) held_.make(value);
  }
  T load(memory_order order = rl::mo_seq_cst, At at = At::current()) const {
    order = model::weakened(order, model::Kind::load, at);
    return contents(at).with([&](auto& cell) -> T { return cell.load(order, model::info(at)); });
  }
  void store(T value, memory_order order = rl::mo_seq_cst, At at = At::current()) {
    order = model::weakened(order, model::Kind::store, at);
    contents(at).with([&](auto& cell) { cell.store(Contents::stored(value), order, model::info(at)); });
  }
  T exchange(T value, memory_order order = rl::mo_seq_cst, At at = At::current()) {
    order = model::weakened(order, model::Kind::exchange, at);
    return contents(at).with(
        [&](auto& cell) -> T { return cell.exchange(Contents::stored(value), order, model::info(at)); });
  }
  T fetch_add(T value, memory_order order = rl::mo_seq_cst, At at = At::current()) {
    order = model::weakened(order, model::Kind::fetch_add, at);
    return contents(at).with([&](auto& cell) { return cell.fetch_add(value, order, model::info(at)); });
  }
  T fetch_sub(T value, memory_order order = rl::mo_seq_cst, At at = At::current()) {
    order = model::weakened(order, model::Kind::fetch_sub, at);
    return contents(at).with([&](auto& cell) { return cell.fetch_sub(value, order, model::info(at)); });
  }
  bool compare_exchange_strong(T& old, T value, memory_order order = rl::mo_seq_cst, At at = At::current()) {
    order = model::weakened(order, model::Kind::compare_exchange, at);
    return contents(at).with(
        [&](auto& cell) { return cell.compare_exchange_strong(old, value, order, model::info(at)); });
  }
  bool compare_exchange_weak(T& old, T value, memory_order order = rl::mo_seq_cst, At at = At::current()) {
    order = model::weakened(order, model::Kind::compare_exchange, at);
    return contents(at).with(
        [&](auto& cell) { return cell.compare_exchange_weak(old, value, order, model::info(at)); });
  }
  bool compare_exchange_weak(T& old, T value, memory_order order, memory_order failed,
                             At at = At::current()) {
    order = model::weakened(order, model::Kind::compare_exchange, at);
    return contents(at).with([&](auto& cell) {
      return cell.compare_exchange_weak(old, value, order, model::info(at), failed, model::info(at));
    });
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
      // A futex compares the value and sleeps in one step. It may read an old value if a store that is not
      // sequentially consistent is still in another core's store buffer.
      if (mine.with([&](auto& cell) { return cell.load(rl::mo_seq_cst, model::info(at)) == old; })) {
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
  Contents& contents(const At& at) const {
    if (!held_.made()) {
      if (!zero_) model::fail("a static that does not begin as zero", model::info(at));
      held_.make(model::FromTheStart());
    }
    return held_.get(model::info(at));
  }
  model::Held<Contents> held_;
  bool zero_;
};

}  // namespace model_std
