#include "server/job/pull_cache.h"

#include <cmath>

namespace heddle::kv_detail {
namespace {

// Encodes value - sent, and adds the decoded difference to `sent`. Returns nothing if an element of `sent` is
// then not finite: it would not be finite in any later version either.
std::vector<std::byte> encode_change(const Codec& codec, std::span<const float> value,
                                     std::vector<float>& sent) {
  std::vector<float> change(value.size()), decoded(value.size());
  for (std::size_t i = 0; i < value.size(); ++i) change[i] = value[i] - sent[i];
  std::vector<std::byte> bytes(codec.encoded_bytes(value.size()));
  codec.encode(change, bytes);
  codec.decode(bytes, decoded);
  bool finite = true;
  for (std::size_t i = 0; i < value.size(); ++i) {
    sent[i] += decoded[i];
    finite = finite && std::isfinite(sent[i]);
  }
  if (!finite) bytes.clear();
  return bytes;
}

}  // namespace

void PullCache::forget(std::map<const StoredKey*, Sent>::iterator sent) {
  if (sent == all_.end()) return;
  bytes_ -= sent->second.value.size() * sizeof(float);
  all_.erase(sent);
}

PullCache::Answer PullCache::answer(const StoredKey& key, const Codec& codec, std::uint32_t has, bool room) {
  const Payload now = key.value().payload();
  const std::span<const float> value(reinterpret_cast<const float*>(now.bytes.data()),
                                     static_cast<std::size_t>(key.value().size()));
  const auto known = all_.find(&key);
  // The encoding of a few elements may be longer than the elements.
  const bool gains = codec.encoded_bytes(value.size()) < key.bytes();
  if (gains && known != all_.end() && has != 0 && known->second.number == has && has + 1 != 0) {
    auto bytes =
        std::make_shared<const std::vector<std::byte>>(encode_change(codec, value, known->second.value));
    if (!bytes->empty()) return {bytes, *bytes, ++known->second.number};
  }
  forget(known);
  std::uint32_t number = 0;
  if (room && gains) {
    all_[&key] = {{value.begin(), value.end()}, number = 1};
    bytes_ += key.bytes();
  }
  return {now.owner, now.bytes, number};
}

}  // namespace heddle::kv_detail
