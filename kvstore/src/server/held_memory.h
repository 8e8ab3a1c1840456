// Memory that is no longer, or never was, that of a key, but is still needed by replies that have not been sent: former
// values, and copies. Its release needs no call.
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
  // `owner`: its memory is released with the last one who holds it, not with weak pointers.
  void add(std::weak_ptr<const void> owner, std::uint64_t bytes) {
    all_.push_back({std::move(owner), bytes});
    bytes_ += bytes;
    if (all_.size() >= look_at_) forget_released();
  }
  // Of what was still held when forget_released() looked, and of what has come since.
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
