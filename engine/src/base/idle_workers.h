// Where threads without work sleep, and who wakes them. Waking a thread costs the waker some 15 microseconds, so as
// long as somebody is looking for work, or is about to be done with what he does (a searcher), nobody is woken: the
// searcher will find it, and wakes the next one if there is more.
//
// No wake-up is lost. A pusher (1) makes work visible, (2) reads searchers_ and parked_count_. A thread that gives up
// (3) stops being a searcher, (4) becomes a sleeper, (5) looks for work once more. All are seq_cst: if (2) came before
// (3) or (4), then (1) came before (5), and the thread sees the work; else the pusher sees the sleeper.
//
// A searcher may be held up: it runs short ops, and one of them turns out to be long. So one of the sleepers, the monitor,
// looks every millisecond whether work lies about while nothing moves. When nothing has happened for a while, it sleeps too.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>
#include <vector>

#include <heddle/usable_cores.h>

#include "base/parked_thread.h"

namespace heddle::detail {

class IdleWorkers {
 public:
  // A place to sleep, of the calling thread alone; it lives as long as this, because wakers touch it on their way out.
  ParkedThread& place() {
    std::lock_guard guard(mutex_);
    return places_.emplace_back();
  }

  // A thread starts, or stops, looking for work. True if it was the last one that did.
  void begin_search() { searchers_.fetch_add(1, std::memory_order_seq_cst); }
  bool end_search() { return searchers_.fetch_sub(1, std::memory_order_seq_cst) == 1; }

  // Behind a full fence after work was made visible: sees to it that somebody looks for it.
  void notify() {
    if (searchers_.load(std::memory_order_seq_cst) == 0 && parked_count_.load(std::memory_order_seq_cst) > 0)
      wake_one();
  }

  // Sleeps unless has_work() or until woken; returns as a searcher. look() is asked after each nap.
  template <class HasWork, class Look> void sleep(ParkedThread& self, HasWork has_work, Look look) {
    std::unique_lock lock(mutex_);
    self.woken_ = false;
    self.woken_from_ = kNoCore;
    self.kept_off_ = false;
    parked_.push_back(&self);
    parked_count_.fetch_add(1, std::memory_order_seq_cst);
    lock.unlock();
    const bool work = has_work();
    lock.lock();
    if (work || closed_) unpark(self);
    self.shall_monitor_ = true;
    while (!self.woken_) {
      if (std::exchange(self.shall_monitor_, false) && !monitor_) nap(self, lock, look);
      self.wake_.wait(lock, [&] { return self.woken_ || self.shall_monitor_; });
    }
    lock.unlock();
    leave_core_of_waker(self);
  }

  // A searcher may be held up from here on: sees to it that one of the sleepers naps. The last monitor may have got up.
  void need_monitor() {
    std::lock_guard guard(mutex_);
    if (monitor_ || parked_.empty()) return;
    parked_.back()->shall_monitor_ = true;
    parked_.back()->wake_.notify_one();
  }

  // Wakes all, for good.
  void close() {
    std::lock_guard guard(mutex_);
    closed_ = true;
    while (!parked_.empty()) take_last().wake_.notify_one();
  }

 private:
  template <class Look> void nap(ParkedThread& self, std::unique_lock<std::mutex>& lock, Look look) {
    constexpr auto kMonitorInterval = std::chrono::milliseconds(1);
    monitor_ = &self;
    for (;;) {
      if (self.wake_.wait_for(lock, kMonitorInterval, [&] { return self.woken_; })) break;
      const MonitorResult next = look();
      if (next == MonitorResult::again) continue;
      if (next == MonitorResult::unpark) unpark(self);
      break;
    }
    monitor_ = nullptr;
  }
  // Unless somebody has woken it, which is the same.
  void unpark(ParkedThread& self) {
    if (self.woken_) return;
    std::erase(parked_, &self);
    parked_count_.fetch_sub(1, std::memory_order_seq_cst);
    begin_search();
    self.woken_ = true;
  }
  void wake_one() {
    std::unique_lock lock(mutex_);
    if (parked_.empty() || searchers_.load(std::memory_order_seq_cst) != 0) return;
    ParkedThread& sleeper = take_last();
    sleeper.woken_from_ = this_core();
    if (crowded_.load(std::memory_order_relaxed))
      sleeper.kept_off_ = keep_off(sleeper.thread_, sleeper.woken_from_, sleeper.cores_);
    // Not under the lock: if it is woken on our core it runs at once, and would find the lock taken.
    lock.unlock();
    sleeper.wake_.notify_one();
  }
  // Who was woken on its waker's core goes to another one, and the next ones are kept from it beforehand: that costs the
  // waker two system calls, which are for nothing where the system does well without.
  void leave_core_of_waker(ParkedThread& self) {
    if (self.kept_off_) {
      allow(self.cores_);
    } else if (self.woken_from_ != kNoCore && self.woken_from_ == this_core()) {
      crowded_.store(true, std::memory_order_relaxed);
      change_core();
    }
  }
  // Counted as a searcher from here on, so that the next pushes wake nobody else while it gets up.
  ParkedThread& take_last() {
    ParkedThread* sleeper = parked_.back();
    parked_.pop_back();
    parked_count_.fetch_sub(1, std::memory_order_seq_cst);
    begin_search();
    sleeper->woken_ = true;
    return *sleeper;
  }

  // Read at every push, written when a thread runs out of work.
  alignas(64) std::atomic<int> searchers_{0};
  std::atomic<int> parked_count_{0};
  std::atomic<bool> crowded_{false};   // a thread was woken on its waker's core
  alignas(64) std::mutex mutex_;       // guards all below
  std::vector<ParkedThread*> parked_;  // the last one's cache is the warmest
  std::deque<ParkedThread> places_;
  ParkedThread* monitor_ = nullptr;
  bool closed_ = false;
};

}  // namespace heddle::detail
