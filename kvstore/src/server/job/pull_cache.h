// Copies of the values that a worker has by compressed pulls. The next answer is the difference to the copy,
// so that a later pull makes up for what an encoding has left out. Without its connection a worker has no
// copies: the next answer is the whole value.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include <heddle/compression.h>

#include "server/key/stored_key.h"

namespace heddle::kv_detail {

class PullCache {
 public:
  struct Answer {
    std::shared_ptr<const void> owner;
    std::span<const std::byte> bytes;
    // Version of the value sent. 1: all of it. n > 1: the difference to version n - 1. 0: all of it, and no
    // copy is kept.
    std::uint32_t number = 0;
  };
  // `has`: version that the worker has; 0: none. Without `room` no copy is kept.
  Answer answer(const StoredKey& key, const Codec& codec, std::uint32_t has, bool room);
  void clear() { all_.clear(), bytes_ = 0; }
  std::uint64_t bytes() const { return bytes_; }

 private:
  struct Sent {
    std::vector<float> value{};
    std::uint32_t number = 0;
  };
  void forget(std::map<const StoredKey*, Sent>::iterator sent);
  std::map<const StoredKey*, Sent> all_;
  std::uint64_t bytes_ = 0;
};

}  // namespace heddle::kv_detail
