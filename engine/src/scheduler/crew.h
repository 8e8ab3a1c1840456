// The engine's threads: at least one for each seat that can go on working, however many are blocked inside ops.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "scheduler/seats.h"

namespace heddle::detail {

class Crew {
 public:
  // `work` is the main function of a thread; it returns at the end.
  Crew(Seats& seats, std::function<void()> work) : seats_(seats), work_(std::move(work)) {}
  void start();  // one thread a seat; throws std::system_error, join() is due then too
  void join();   // once `work` returns

  // A thread of the crew is going to block in the middle of an op. Starts another if too few are left to work. Throws
  // Error if there is no thread to be had.
  void one_blocks();
  void one_goes_on() noexcept;
  // Waits for a seat, to go on in the middle of an op. Null after a while in which no op has ended, as `ended()` counts
  // them: who has the seats may need a lock that the op holds, and then it has to go on without.
  Seat* await_seat(const std::function<std::uint64_t()>& ended) noexcept;
  std::uint64_t in_vain() const { return in_vain_.load(std::memory_order_relaxed); }  // how often it was null
  // Threads wait for a seat: who is between two ops shall release his, and call seat_released().
  bool wanted() const noexcept { return wanted_.load(std::memory_order_seq_cst) > 0; }
  void seat_released() noexcept;

 private:
  Seats& seats_;
  std::function<void()> work_;
  std::atomic<int> wanted_{0};  // threads in await_seat()
  std::atomic<std::uint64_t> in_vain_{0};
  std::mutex mutex_;  // guards all below
  std::condition_variable released_;
  int blocked_ = 0;
  std::deque<std::thread> threads_;
};

}  // namespace heddle::detail
