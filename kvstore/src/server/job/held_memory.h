// Counts memory that belongs to no key, but is held by replies that have not been sent: former values, and
// copies. When it is released, nobody has to say so.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace heddle::kv_detail {

class HeldMemory {
 public:
  // `owner`: holds memory that is freed with the last shared_ptr. A block that make_shared() has allocated is
  // not: weak pointers keep it.
  void add(std::weak_ptr<const void> owner, std::uint64_t bytes) {
    all_.push_back({std::move(owner), bytes});
    bytes_ += bytes;
    if (all_.size() >= look_at_) forget_released();
  }
  // Bytes that the last forget_released() has found held, and bytes that were added after it.
  std::uint64_t bytes() const { return bytes_; }
  void forget_released() {
    std::erase_if(all_, [this](const One& one) {
      const bool released = one.owner.expired();
      if (released) bytes_ -= one.bytes;
      return released;
    });
    look_at_ = std::max(kLook, 2 * all_.size());
  }

 private:
  struct One {
    std::weak_ptr<const void> owner;
    std::uint64_t bytes;
  };
  static constexpr std::size_t kLook = 64;
  std::vector<One> all_{};
  std::uint64_t bytes_ = 0;
  std::size_t look_at_ = kLook;
};

}  // namespace heddle::kv_detail
