// Where workers without work sleep, and who wakes them. Waking a thread costs the waker some 15 microseconds, so as
// long as one worker is still looking for work (a searcher), nobody is woken: the searcher will find it, and wakes
// the next one if there is more.
//
// No wake-up is lost. A pusher (1) makes work visible, (2) reads searchers_ and sleepers_. A worker that gives up
// (3) stops being a searcher, (4) becomes a sleeper, (5) looks for work once more. All are seq_cst: if (2) came before
// (3) or (4), then (1) came before (5), and the worker sees the work; else the pusher sees the sleeper.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <vector>

namespace heddle::detail {

class Sleeper {
  friend class Parking;
  std::condition_variable wake_;
  bool woken_ = false;  // guarded by Parking::mutex_
};

class Parking {
 public:
  // A thread starts, or stops, looking for work. True if it was the last one that did.
  void begin_search() { searchers_.fetch_add(1, std::memory_order_seq_cst); }
  bool end_search() { return searchers_.fetch_sub(1, std::memory_order_seq_cst) == 1; }

  // After work was made visible: sees to it that somebody looks for it.
  void notify() {
    if (searchers_.load(std::memory_order_seq_cst) == 0 && sleepers_.load(std::memory_order_seq_cst) > 0)
      wake_one();
  }

  // Sleeps unless has_work() or until woken; returns as a searcher.
  template <class HasWork> void sleep(Sleeper& self, HasWork has_work) {
    std::unique_lock lock(mutex_);
    if (closed_) {
      begin_search();
      return;
    }
    self.woken_ = false;
    asleep_.push_back(&self);
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    lock.unlock();
    const bool work = has_work();
    lock.lock();
    if (work && !self.woken_) {
      std::erase(asleep_, &self);
      sleepers_.fetch_sub(1, std::memory_order_seq_cst);
      begin_search();
      return;
    }
    self.wake_.wait(lock, [&] { return self.woken_; });
  }

  // Wakes all, for good.
  void close() {
    std::lock_guard guard(mutex_);
    closed_ = true;
    while (!asleep_.empty()) wake_last();
  }

 private:
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

  std::atomic<int> searchers_{0};
  std::atomic<int> sleepers_{0};
  std::mutex mutex_;              // guards all below
  std::vector<Sleeper*> asleep_;  // the last one's cache is the warmest
  bool closed_ = false;
};

}  // namespace heddle::detail
