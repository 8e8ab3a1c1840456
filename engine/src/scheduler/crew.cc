#include "scheduler/crew.h"

#include <chrono>
#include <exception>
#include <string>
#include <utility>

#include <heddle/error.h>

namespace heddle::detail {

void Crew::start() {
  std::lock_guard guard(mutex_);
  for (int i = 0; i < seats_.size(); ++i) threads_.emplace_back(work_);
}

void Crew::join() {
  for (std::thread& thread : threads_) thread.join();
}

void Crew::one_blocks() {
  std::lock_guard guard(mutex_);
  ++blocked_;
  if (static_cast<int>(threads_.size()) - blocked_ >= seats_.size()) return;
  try {
    threads_.emplace_back(work_);
  } catch (const std::exception& error) {  // no thread, or no memory for one
    --blocked_;
    throw Error("a wait inside an op needs a thread to work meanwhile, and " +
                std::to_string(threads_.size()) + " threads are the most there can be: " + error.what());
  }
}

void Crew::one_goes_on() noexcept {
  std::lock_guard guard(mutex_);
  --blocked_;
}

Seat* Crew::await_seat(const std::function<std::uint64_t()>& ended) noexcept {
  constexpr auto kWhile = std::chrono::milliseconds(20);
  std::unique_lock lock(mutex_);
  // seq_cst: either we find the seat that is released just now, or its holder sees that we wait.
  wanted_.fetch_add(1, std::memory_order_seq_cst);
  Seat* seat = nullptr;
  const auto taken = [&] { return (seat = seats_.take()) != nullptr; };
  for (std::uint64_t before = ended(); !released_.wait_for(lock, kWhile, taken);) {
    if (std::exchange(before, ended()) == before) break;
  }
  wanted_.fetch_sub(1, std::memory_order_seq_cst);
  if (!seat) in_vain_.fetch_add(1, std::memory_order_relaxed);
  return seat;
}

void Crew::seat_released() noexcept {
  if (!wanted()) return;
  // Whoever is about to wait has looked for a seat under the lock.
  { std::lock_guard guard(mutex_); }
  released_.notify_one();
}

}  // namespace heddle::detail
