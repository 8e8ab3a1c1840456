// Values and pushes of a worker that are being received in pieces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>

#include <heddle/compression.h>
#include <heddle/ndarray.h>

#include "server/key/push.h"
#include "server/key/row_updates.h"
#include "wire/messages.h"

namespace heddle::kv_detail {

class StoredKey;

class Incoming {
 public:
  // Allocates memory for all pieces of an init's or a push's payload.
  Incoming(const StoredKey& key, const Request& request);
  std::uint64_t bytes() const;         // size of the payload
  std::uint64_t memory_bytes() const;  // size of the payload and of the memory that it is decoded to
  // Memory for the piece at this offset. Throws MalformedMessage unless it is the next piece.
  std::byte* at(std::uint64_t offset);
  // Called when a piece has been received. Returns whether it was the last piece.
  bool arrived(std::uint64_t offset, std::uint64_t bytes);
  // Checks and decodes the complete payload. Throws MalformedMessage for invalid rows or encodings.
  void complete();
  const RowValues& rows() const { return rows_; }  // undefined: the payload is a whole value
  const NDArray& memory() const { return memory_; }
  void put_into(Push& push) &&;

 private:
  const StoredKey& key_;
  const std::uint64_t row_bytes_;
  const std::shared_ptr<const Codec> codec_;  // codec of a compressed push; null: none
  NDArray memory_, decoded_{};
  RowValues rows_{};
  std::uint64_t filled_ = 0;
};

class IncomingValues {
 public:
  void add(const StoredKey& key, const Request& request);
  bool has(const StoredKey& key) const { return !all_.empty() && all_.contains(&key); }
  Incoming* find(const StoredKey& key);  // null: no value of the key is being received
  Incoming take(const StoredKey& key);   // to be called only if a value of the key is being received
  void drop(const StoredKey& key);
  void clear() { all_.clear(), bytes_ = 0; }
  std::uint64_t bytes() const { return bytes_; }

 private:
  std::unordered_map<const StoredKey*, Incoming> all_{};
  std::uint64_t bytes_ = 0;
};

}  // namespace heddle::kv_detail
