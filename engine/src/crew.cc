#include "crew.h"

#include <string>
#include <system_error>

#include <heddle/error.h>

namespace heddle::detail {

Crew::Crew(int seats, std::function<void(Worker&)> work)
    : seats_(static_cast<std::size_t>(seats)), work_(std::move(work)) {}

void Crew::start() {
  std::lock_guard guard(mutex_);
  for (std::size_t i = 0; i < seats_.size(); ++i) {
    seats_[i].index = static_cast<int>(i);
    add_thread(&seats_[i]);
  }
}

void Crew::close() {
  {
    std::lock_guard guard(mutex_);
    closed_ = true;
    for (Worker* worker : spare_) worker->seated.notify_one();
  }
  for (std::thread& thread : threads_) thread.join();
}

void Crew::add_thread(Seat* seat) {
  Worker& worker = workers_.emplace_back();
  worker.seat = seat;
  worker.extra = threads_.size() >= seats_.size();
  try {
    threads_.emplace_back([this, &worker] { main(worker); });
  } catch (...) {
    workers_.pop_back();
    throw;
  }
}

void Crew::main(Worker& worker) {
  for (;;) {
    work_(worker);
    std::unique_lock lock(mutex_);
    if (closed_) return;
    if (worker.seat) continue;
    spare_.push_back(&worker);
    worker.seated.wait(lock, [&] { return worker.seat || closed_; });
    if (!worker.seat) return;
  }
}

bool Crew::hand_to_waiting(Seat* seat) {
  if (asking_.empty()) return false;
  Worker* next = asking_.front();
  asking_.pop_front();
  wanted_.fetch_sub(1, std::memory_order_seq_cst);
  next->seat = seat;
  next->seated.notify_one();
  return true;
}

void Crew::give_up_seat(Worker& worker) {
  std::lock_guard guard(mutex_);
  Seat* seat = std::exchange(worker.seat, nullptr);
  if (hand_to_waiting(seat)) return;
  if (spare_.empty()) {
    try {
      add_thread(seat);
    } catch (const std::system_error& error) {
      worker.seat = seat;
      throw Error("a wait inside an op needs a thread to work meanwhile, and " +
                  std::to_string(threads_.size()) + " threads are the most there can be: " + error.what());
    }
    return;
  }
  Worker* next = spare_.back();
  spare_.pop_back();
  next->seat = seat;
  next->seated.notify_one();
}

void Crew::ask_for_seat(Worker& worker) {
  std::lock_guard guard(mutex_);
  asking_.push_back(&worker);
  wanted_.fetch_add(1, std::memory_order_seq_cst);
}

void Crew::await_seat(Worker& worker) {
  std::unique_lock lock(mutex_);
  worker.seated.wait(lock, [&] { return worker.seat != nullptr; });
}

bool Crew::yield_seat(Worker& worker) {
  std::lock_guard guard(mutex_);
  if (!hand_to_waiting(worker.seat)) return false;
  worker.seat = nullptr;
  return true;
}

}  // namespace heddle::detail
