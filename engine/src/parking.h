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
#include <deque>
#include <mutex>
#include <utility>
#include <vector>

#include <heddle/usable_cores.h>

#include "sleeper.h"

namespace heddle::detail {

class Parking {
 public:
  // A place to sleep, of the calling thread alone; it lives as long as this, because wakers touch it on their way out.
  Sleeper& place() {
    std::lock_guard guard(mutex_);
    return places_.emplace_back();
  }

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
    self.woken_from_ = kNoCore;
    self.kept_off_ = false;
    asleep_.push_back(&self);
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    lock.unlock();
    const bool work = has_work();
    lock.lock();
    if (work || closed_) get_up(self);
    self.shall_nap_ = true;
    while (!self.woken_) {
      if (std::exchange(self.shall_nap_, false) && !napper_) nap(self, lock, look);
      self.wake_.wait(lock, [&] { return self.woken_ || self.shall_nap_; });
    }
    lock.unlock();
    leave_waker(self);
  }

  // A searcher may be held up from here on: sees to it that one of the sleepers naps. The last napper may have got up.
  void need_napper() {
    std::lock_guard guard(mutex_);
    if (napper_ || asleep_.empty()) return;
    asleep_.back()->shall_nap_ = true;
    asleep_.back()->wake_.notify_one();
  }

  // Wakes all, for good.
  void close() {
    std::lock_guard guard(mutex_);
    closed_ = true;
    while (!asleep_.empty()) take_last().wake_.notify_one();
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
    std::unique_lock lock(mutex_);
    if (asleep_.empty() || searchers_.load(std::memory_order_seq_cst) != 0) return;
    Sleeper& sleeper = take_last();
    sleeper.woken_from_ = this_core();
    if (crowded_.load(std::memory_order_relaxed))
      sleeper.kept_off_ = keep_off(sleeper.thread_, sleeper.woken_from_, sleeper.cores_);
    // Not under the lock: if it is woken on our core it runs at once, and would find the lock taken.
    lock.unlock();
    sleeper.wake_.notify_one();
  }
  // Who was woken on its waker's core goes to another one, and the next ones are kept from it beforehand: that costs the
  // waker two system calls, which are for nothing where the system does well without.
  void leave_waker(Sleeper& self) {
    if (self.kept_off_) {
      allow(self.cores_);
    } else if (self.woken_from_ != kNoCore && self.woken_from_ == this_core()) {
      crowded_.store(true, std::memory_order_relaxed);
      change_core();
    }
  }
  // Counted as a searcher from here on, so that the next pushes wake nobody else while it gets up.
  Sleeper& take_last() {
    Sleeper* sleeper = asleep_.back();
    asleep_.pop_back();
    sleepers_.fetch_sub(1, std::memory_order_seq_cst);
    begin_search();
    sleeper->woken_ = true;
    return *sleeper;
  }

  // Read at every push, written when a thread runs out of work.
  alignas(64) std::atomic<int> searchers_{0};
  std::atomic<int> sleepers_{0};
  std::atomic<bool> crowded_{false};  // a thread was woken on its waker's core
  alignas(64) std::mutex mutex_;      // guards all below
  std::vector<Sleeper*> asleep_;      // the last one's cache is the warmest
  std::deque<Sleeper> places_;
  Sleeper* napper_ = nullptr;
  bool closed_ = false;
};

}  // namespace heddle::detail
