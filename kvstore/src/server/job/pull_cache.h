// Copies of the values that a worker has got by compressed pulls. The answer to the next pull is the
// difference to the copy, so that it makes up for what the encoding has left out. When the worker's
// connection is lost, its copies are freed, and the next answer is the whole value.
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
    // Version of the value that is sent. 0: `bytes` is the whole value, and no copy is kept. 1: `bytes` is
    // the whole value. n > 1: `bytes` is the encoded difference to version n - 1.
    std::uint32_t number = 0;
  };
  // `has`: version of the value that the worker has; 0: none. If `room` is false, no copy of a whole value is
  // kept.
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
