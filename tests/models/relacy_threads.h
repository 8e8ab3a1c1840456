// Threads and the clock on Relacy: more of namespace model_std. A model that includes code with thread-local
// variables turns each into an array with one element per thread: #define name names[model::thread_index()].
#pragma once

#include "relacy_std.h"

namespace model {

constexpr unsigned kMostThreads = 8;

// The index of the calling thread. In a constant expression, such as the bound of an array, the maximum
// number of threads.
constexpr unsigned thread_index() {
  if (std::is_constant_evaluated()) return kMostThreads;
  return rl::is_ctx() ? rl::thread_index() : 0;
}

inline int threads_left = 0;  // number of threads that the product may still create in this schedule

}  // namespace model

namespace model_std {

class thread {
 public:
  thread() = default;
  explicit thread(const std::function<void()>& work) : started_(std::make_unique<Started>(work)) {
    if (model::threads_left-- <= 0)
      throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
    started_->thread.start(&run, started_.get());
  }
  bool joinable() const { return started_ != nullptr; }
  void join() { std::exchange(started_, nullptr)->thread.join(); }
  static unsigned hardware_concurrency() { return 2; }

 private:
  struct Started {
    explicit Started(const std::function<void()>& work_to_do) : work(work_to_do) {}
    std::function<void()> work;
    rl::dyn_thread thread;
  };
  static void* run(void* started) {
    static_cast<Started*>(started)->work();
    return nullptr;
  }
  std::unique_ptr<Started> started_;
};

namespace chrono {
using namespace ::std::chrono;

// A clock for which Relacy's scheduler chooses whether little or much time has passed since the last call.
struct steady_clock {
  using rep = ::std::chrono::steady_clock::rep;
  using duration = ::std::chrono::steady_clock::duration;
  using time_point = ::std::chrono::steady_clock::time_point;
  static time_point now() {
    passed_ += nanoseconds(rl::rand(2) ? 1 : 1000000);
    return time_point(passed_);
  }

 private:
  static inline nanoseconds passed_{0};
};
}  // namespace chrono

}  // namespace model_std
