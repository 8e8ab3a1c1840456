// The unanswered calls of a connection, by their numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace heddle::kv_detail {

// A queue in contiguous memory: calls are added at the end, and most are taken from the front.
template <class T> class CallRing {
 public:
  bool empty() const { return live_ == 0; }
  std::size_t size() const { return live_; }

  // `number` must be larger than the numbers of all calls that were added earlier.
  T& add(std::uint64_t number, T call) {
    if (slots_.size() == slots_.capacity() && 2 * live_ <= slots_.size()) compact();
    ++live_;
    return *slots_.emplace_back(number, std::move(call)).second;
  }

  // Returns the call with this number, null if there is none. The pointer is valid until the next add() or
  // take().
  T* find(std::uint64_t number) {
    const std::size_t at = index_of(number);
    return at < slots_.size() ? &*slots_[at].second : nullptr;
  }

  T take(std::uint64_t number) {
    std::optional<T>& slot = slots_[index_of(number)].second;
    T call = std::move(*slot);
    slot.reset();
    --live_;
    while (first_ < slots_.size() && !slots_[first_].second) ++first_;
    if (live_ == 0) slots_.clear(), first_ = 0;
    return call;
  }

  template <class Visit> void each(Visit&& visit) {
    for (std::size_t i = first_; i < slots_.size(); ++i) {
      if (slots_[i].second) visit(slots_[i].first, *slots_[i].second);
    }
  }

 private:
  using Slot = std::pair<std::uint64_t, std::optional<T>>;

  // Index in slots_ of the call with this number, else slots_.size(). The first guess is right if the numbers
  // of the calls have no gaps, as is mostly the case.
  std::size_t index_of(std::uint64_t number) const {
    if (first_ == slots_.size() || number < slots_[first_].first) return slots_.size();
    const std::uint64_t guess = first_ + (number - slots_[first_].first);
    std::size_t at = guess < slots_.size() ? guess : slots_.size() - 1;
    if (slots_[at].first != number) {
      std::size_t begin = first_, end = slots_.size();
      while (begin < end) {
        const std::size_t middle = begin + (end - begin) / 2;
        slots_[middle].first < number ? begin = middle + 1 : end = middle;
      }
      at = begin;
    }
    const bool is_there = at < slots_.size() && slots_[at].first == number && slots_[at].second;
    return is_there ? at : slots_.size();
  }

  // Removes the slots of calls that were taken.
  void compact() {
    std::vector<Slot> kept;
    kept.reserve(slots_.capacity());
    for (Slot& slot : slots_) {
      if (slot.second) kept.push_back(std::move(slot));
    }
    slots_ = std::move(kept);
    first_ = 0;
  }

  std::vector<Slot> slots_;
  std::size_t first_ = 0;  // index of the first call that has not been taken
  std::size_t live_ = 0;
};

}  // namespace heddle::kv_detail
