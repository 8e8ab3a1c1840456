// The synchronisation primitives of the standard library, on Relacy: namespace model_std is std with these in
// place of std's own.
#pragma once

#include "relacy_atomic.h"

namespace model {

inline bool times_out = true;  // whether waits with a timeout may time out

}  // namespace model

namespace model_std {

// An atomic_ref whose accesses are plain, since Relacy has no atomic_ref.
template <class T> class atomic_ref {
 public:
  explicit atomic_ref(T& value) : value_(value) {}
  T load(memory_order = rl::mo_seq_cst) const { return value_; }
  void store(T value, memory_order = rl::mo_seq_cst) const { value_ = value; }

 private:
  T& value_;
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
  void wait(unique_lock<mutex>& lock) { contents().wait(lock.mutex()->contents(), RL_INFO); }
  template <class Predicate> void wait(unique_lock<mutex>& lock, Predicate done) {
    while (!done()) contents().wait(lock.mutex()->contents(), RL_INFO);
  }
  // Relacy's scheduler chooses when the time is over.
  template <class Time, class Predicate> bool wait_for(unique_lock<mutex>& lock, Time time, Predicate done) {
    while (!done()) {
      if (!model::times_out) {
        contents().wait(lock.mutex()->contents(), RL_INFO);
      } else if (!contents().wait_for(lock.mutex()->contents(), time, RL_INFO))
        return done();
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
