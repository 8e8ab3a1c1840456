#include "crew.h"

namespace heddle::detail {

Crew::Crew(int seats, std::function<void(Worker&)> work)
    : seats_(static_cast<std::size_t>(seats)), work_(std::move(work)) {
  std::lock_guard guard(mutex_);
  for (int i = 0; i < seats; ++i) {
    seats_[static_cast<std::size_t>(i)].index = i;
    add_thread(&seats_[static_cast<std::size_t>(i)]);
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
  threads_.emplace_back([this, &worker] { main(worker); });
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
    add_thread(seat);
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
