// What a worker has been sent of values that it pulls compressed. The next answer is how the value differs from that, so what
// an encoding has left out comes with a later pull. Lost with the connection: then the value is sent as it is.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include <heddle/compression.h>

#include "server/stored_key.h"

namespace heddle::kv_detail {

class SentValues {
 public:
  struct Answer {
    std::shared_ptr<const void> owner;
    std::span<const std::byte> bytes;
    std::uint32_t number =
        0;  // 1: the value as it is. More: what changes value number - 1. 0: as it is, and forgotten
  };
  // `has`: the number of the value that the worker has; 0: none. Without room what is sent is not kept.
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
