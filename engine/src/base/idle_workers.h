// Parks threads that have no work, and unparks them when there is some. To wake a thread costs the waker some 15
// microseconds. So no thread is woken while there is a searcher: a thread that looks for work, or is about to when its
// short op ends. The searcher finds the new work, and wakes the next thread if there is more.
//
// No wake-up is lost. A pusher (1) makes work visible, (2) reads searchers_ and parked_count_. A thread that gives up
// (3) stops being a searcher, (4) joins parked_, (5) looks for work once more. All are seq_cst: if (2) came before (3)
// or (4), then (1) came before (5), and the thread sees the work; else the pusher sees the parked thread.
//
// A searcher may be held up: it runs short ops, and one of them turns out to be long. So one of the parked threads, the
// monitor, checks every millisecond whether ready work is left while no op completes. When there has been no work for a
// while, it stops doing so and stays parked.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>
#include <vector>

#include "base/parked_thread.h"

namespace heddle::detail {

class IdleWorkers {
 public:
  // The object that the calling thread alone parks on. It lives as long as this IdleWorkers, since a waker
  // touches it after the woken thread may have ended.
  ParkedThread& add_thread() {
    std::lock_guard guard(mutex_);
    return threads_.emplace_back();
  }

  // The calling thread starts, or stops, being a searcher. end_search() is true if it was the last one.
  void begin_search() { searchers_.fetch_add(1, std::memory_order_seq_cst); }
  bool end_search() { return searchers_.fetch_sub(1, std::memory_order_seq_cst) == 1; }

  // Wakes a thread if there is no searcher. The caller has made work visible and issued a full fence.
  void notify() {
    if (searchers_.load(std::memory_order_seq_cst) == 0 && parked_count_.load(std::memory_order_seq_cst) > 0)
      wake_one();
  }

  // Parks the calling thread until it is woken, or not at all if has_work(). The thread is a searcher again
  // on return. While it is the monitor it calls check() every millisecond.
  template <class HasWork, class Check> void park(ParkedThread& self, HasWork has_work, Check check) {
    std::unique_lock lock(mutex_);
    self.woken_ = false;
    self.waker_core_ = kNoCore;
    parked_.push_back(&self);
    parked_count_.fetch_add(1, std::memory_order_seq_cst);
    lock.unlock();
    const bool work = has_work();
    lock.lock();
    if (work || closed_) unpark(self);
    self.become_monitor_ = true;
    while (!self.woken_) {
      if (std::exchange(self.become_monitor_, false) && !monitor_) monitor(self, lock, check);
      self.wake_.wait(lock, [&] { return self.woken_ || self.become_monitor_; });
    }
  }

  // Makes one of the parked threads the monitor if there is none. Called when a searcher may be held up.
  void need_monitor() {
    std::lock_guard guard(mutex_);
    if (monitor_ || parked_.empty()) return;
    parked_.back()->become_monitor_ = true;
    parked_.back()->wake_.notify_one();
  }

  // Wakes all threads; none is parked from now on.
  void close() {
    std::lock_guard guard(mutex_);
    closed_ = true;
    while (!parked_.empty()) unpark_last().wake_.notify_one();
  }

 private:
  template <class Check> void monitor(ParkedThread& self, std::unique_lock<std::mutex>& lock, Check check) {
    constexpr auto kMonitorInterval = std::chrono::milliseconds(1);
    monitor_ = &self;
    for (;;) {
      if (self.wake_.wait_for(lock, kMonitorInterval, [&] { return self.woken_; })) break;
      const MonitorResult next = check();
      if (next == MonitorResult::again) continue;
      if (next == MonitorResult::unpark) unpark(self);
      break;
    }
    monitor_ = nullptr;
  }
  // Takes the calling thread out of parked_, unless a waker has done so already.
  void unpark(ParkedThread& self) {
    if (self.woken_) return;
    std::erase(parked_, &self);
    parked_count_.fetch_sub(1, std::memory_order_seq_cst);
    begin_search();
    self.woken_ = true;
  }
  // Wakes a parked thread, on a core that the kernel chooses. Excluding the waker's core would take two
  // system calls, and a thread moved to a core that runs another program waits some milliseconds for a time
  // slice there, instead of microseconds.
  void wake_one() {
    std::unique_lock lock(mutex_);
    if (parked_.empty() || searchers_.load(std::memory_order_seq_cst) != 0) return;
    ParkedThread& parked = unpark_last();
    parked.waker_core_ = this_core();
    // Notifies without the lock, since a thread that wakes on the waker's core runs at once, and would find
    // it locked.
    lock.unlock();
    parked.wake_.notify_one();
  }
  // Takes the last thread out of parked_. It counts as a searcher from now on, so that pushes wake no other
  // thread until it has woken.
  ParkedThread& unpark_last() {
    ParkedThread* last = parked_.back();
    parked_.pop_back();
    parked_count_.fetch_sub(1, std::memory_order_seq_cst);
    begin_search();
    last->woken_ = true;
    return *last;
  }

  // Every push reads searchers_ and parked_count_; a thread that runs out of work writes them.
  alignas(64) std::atomic<int> searchers_{0};
  std::atomic<int> parked_count_{0};
  alignas(64) std::mutex mutex_;       // guards all below
  std::vector<ParkedThread*> parked_;  // the last one is woken first, since its cache is the warmest
  std::deque<ParkedThread> threads_;
  ParkedThread* monitor_ = nullptr;
  bool closed_ = false;
};

}  // namespace heddle::detail
