#include "scheduler/epochs.h"

namespace heddle::detail {

void Epochs::begin_deleting(const int (&vars)[2]) noexcept {
  for (const int epoch : {0, 1})
    if (vars[epoch] > 0) deleting_[epoch].fetch_add(vars[epoch], std::memory_order_relaxed);
}

void Epochs::end_deleting(const int (&vars)[2]) noexcept {
  for (const int epoch : {0, 1})
    if (vars[epoch] > 0) deleting_[epoch].fetch_sub(vars[epoch], std::memory_order_release);
}

std::uint64_t Epochs::ended(Epoch epoch) const {
  std::uint64_t count = ended_without_slot_[epoch].load(std::memory_order_acquire);
  for (const WorkerSlot& slot : slots_) count += slot.ended[epoch].load(std::memory_order_acquire);
  return count;
}

std::uint64_t Epochs::children(Epoch epoch) const {
  std::uint64_t count = children_without_slot_[epoch].load(std::memory_order_acquire);
  for (const WorkerSlot& slot : slots_) count += slot.children[epoch].load(std::memory_order_acquire);
  return count;
}

// Reads the number of ended ops first, and the number of pushed ops afterwards. Ended ops are never more than
// pushed ops. So if the results are equal, the two numbers were equal at a moment in between.
bool Epochs::counts_match(Epoch epoch) const {
  const std::uint64_t before = ended(epoch), pushed = children(epoch);
  std::lock_guard guard(submissions_);
  return pushed + entered_[epoch] == before;
}

bool Epochs::is_over(Epoch epoch) const {
  {
    std::lock_guard guard(submissions_);
    if (open_ == epoch) return false;
  }
  return deleting_[epoch].load(std::memory_order_acquire) == 0 && counts_match(epoch);
}

// The number of ended ops is read first, so that it never exceeds the number of entered ones.
std::int64_t Epochs::in_flight() const {
  const std::uint64_t before = ended(0) + ended(1), pushed = children(0) + children(1);
  std::lock_guard guard(submissions_);
  return static_cast<std::int64_t>(pushed + entered_[0] + entered_[1] - before);
}

std::uint64_t Epochs::ended_on_slots() const {
  std::uint64_t count = 0;
  for (const WorkerSlot& slot : slots_) {
    for (const auto& ended : slot.ended) count += ended.load(std::memory_order_relaxed);
  }
  return count;
}

void Epochs::check() noexcept {
  // A read-modify-write of waiters_, here and in Wait: either this thread sees the waiting thread, or the
  // waiting thread sees the counts that this thread has changed.
  if (waiters_.fetch_add(0, std::memory_order_seq_cst) == 0) return;
  if (!is_over(awaited_.load(std::memory_order_seq_cst))) return;
  signal_.fetch_add(1, std::memory_order_seq_cst);
  signal_.notify_all();
  over_.store(1, std::memory_order_seq_cst);
  over_.notify_all();
}

Epochs::Wait::Wait(Epochs& epochs) : epochs_(epochs), one_(epochs.one_waits_) {
  {
    std::lock_guard guard(epochs.submissions_);
    epoch_ = epochs.open_;  // only the thread that has a Wait ends the epoch
  }
  epochs.awaited_.store(epoch_, std::memory_order_seq_cst);
  epochs.waiters_.fetch_add(1, std::memory_order_seq_cst);
}

Epochs::Wait::~Wait() { epochs_.waiters_.fetch_sub(1, std::memory_order_seq_cst); }

std::uint32_t Epochs::Wait::prepare() {
  const std::uint32_t prepared = epochs_.signal_.load(std::memory_order_seq_cst);
  epochs_.over_.store(0, std::memory_order_seq_cst);
  return prepared;
}

void Epochs::Wait::block(std::uint32_t prepared) {
  epochs_.signal_.wait(prepared, std::memory_order_seq_cst);
}

}  // namespace heddle::detail
