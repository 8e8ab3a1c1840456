// Where threads without work sleep, and who wakes them. Waking a thread costs the waker some 15 microseconds, so as
// long as somebody is looking for work, or is about to be done with what he does (a searcher), nobody is woken: the
// searcher will find it, and wakes the next one if there is more.
//
// No wake-up is lost. A pusher (1) makes work visible, (2) reads searchers_ and sleepers_. A thread that gives up
// (3) stops being a searcher, (4) becomes a sleeper, (5) looks for work once more. All are seq_cst: if (2) came before
// (3) or (4), then (1) came before (5), and the thread sees the work; else the pusher sees the sleeper.
//
// A searcher may be held up: it runs short ops, and one of them turns out to be long. So one of the sleepers, the napper,
// looks every millisecond whether work lies about while nothing moves. When nothing has happened for a while, it sleeps too.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <vector>

namespace heddle::detail {

class Sleeper {
  friend class Parking;
  std::condition_variable wake_;
  bool woken_ = false;  // guarded by Parking::mutex_
};

// What a napper finds when it looks.
enum class Nap { again, get_up, sleep_soundly };

class Parking {
 public:
  // A thread starts, or stops, looking for work. True if it was the last one that did.
  void begin_search() { searchers_.fetch_add(1, std::memory_order_seq_cst); }
  bool end_search() { return searchers_.fetch_sub(1, std::memory_order_seq_cst) == 1; }

  // Behind a full fence after work was made visible: sees to it that somebody looks for it.
  void notify() {
    if (searchers_.load(std::memory_order_seq_cst) == 0 && sleepers_.load(std::memory_order_seq_cst) > 0)
      wake_one();
  }

  // Sleeps unless has_work() or until woken; returns as a searcher. look() is asked after each nap.
  template <class HasWork, class Look> void sleep(Sleeper& self, HasWork has_work, Look look) {
    std::unique_lock lock(mutex_);
    self.woken_ = false;
    asleep_.push_back(&self);
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    lock.unlock();
    const bool work = has_work();
    lock.lock();
    if (work || closed_) {
      get_up(self);
      return;
    }
    if (!napper_) nap(self, lock, look);
    self.wake_.wait(lock, [&] { return self.woken_; });
  }

  // Wakes all, for good.
  void close() {
    std::lock_guard guard(mutex_);
    closed_ = true;
    while (!asleep_.empty()) wake_last();
  }

 private:
  template <class Look> void nap(Sleeper& self, std::unique_lock<std::mutex>& lock, Look look) {
    constexpr auto kNap = std::chrono::milliseconds(1);
    napper_ = &self;
    for (;;) {
      if (self.wake_.wait_for(lock, kNap, [&] { return self.woken_; })) break;
      const Nap next = look();
      if (next == Nap::again) continue;
      if (next == Nap::get_up) get_up(self);
      break;
    }
    napper_ = nullptr;
  }
  // Unless somebody has woken it, which is the same.
  void get_up(Sleeper& self) {
    if (self.woken_) return;
    std::erase(asleep_, &self);
    sleepers_.fetch_sub(1, std::memory_order_seq_cst);
    begin_search();
    self.woken_ = true;
  }
  void wake_one() {
    std::lock_guard guard(mutex_);
    if (!asleep_.empty() && searchers_.load(std::memory_order_seq_cst) == 0) wake_last();
  }
  // Counted as a searcher from here on, so that the next pushes wake nobody else while it gets up.
  void wake_last() {
    Sleeper* sleeper = asleep_.back();
    asleep_.pop_back();
    sleepers_.fetch_sub(1, std::memory_order_seq_cst);
    begin_search();
    sleeper->woken_ = true;
    sleeper->wake_.notify_one();
  }

  // Read at every push, written when a thread runs out of work.
  alignas(64) std::atomic<int> searchers_{0};
  std::atomic<int> sleepers_{0};
  alignas(64) std::mutex mutex_;  // guards all below
  std::vector<Sleeper*> asleep_;  // the last one's cache is the warmest
  Sleeper* napper_ = nullptr;
  bool closed_ = false;
};

}  // namespace heddle::detail
