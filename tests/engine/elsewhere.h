// A thread outside the engine that completes asynchronous ops.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include <heddle/op.h>

namespace heddle::test {

// Calls end(), on a thread of its own, with each Completion that take() gets. The destructor first ends those
// that remain.
class Elsewhere {
 public:
  explicit Elsewhere(std::function<void(Completion&)> end)
      : end_(std::move(end)), thread_([this] { work(); }) {}
  ~Elsewhere() {
    stop_ = true;
    thread_.join();
  }
  void take(Completion completion) {
    std::lock_guard guard(mutex_);
    taken_.push_back(std::move(completion));
  }

 private:
  void work() {
    for (bool last = false; !last;) {
      last = stop_;
      std::deque<Completion> batch;
      {
        std::lock_guard guard(mutex_);
        batch.swap(taken_);
      }
      if (batch.empty()) std::this_thread::yield();
      for (Completion& completion : batch) end_(completion);
    }
  }
  const std::function<void(Completion&)> end_;
  std::atomic<bool> stop_{false};
  std::mutex mutex_;  // guards taken_
  std::deque<Completion> taken_;
  std::thread thread_;
};

}  // namespace heddle::test
