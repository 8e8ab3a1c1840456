#include "server/key/incoming.h"

#include <utility>

#include "server/key/compression.h"
#include "server/key/sole_weight.h"
#include "server/key/stored_key.h"

namespace heddle::kv_detail {
namespace {

NDArray allocated(std::int64_t size, DType dtype) {
  NDArray array({size}, dtype);
  array.data<std::byte>();  // allocates the memory now
  return array;
}

}  // namespace

Incoming::Incoming(const StoredKey& key, const Request& request)
    : key_(key),
      row_bytes_(request.row_bytes),
      codec_(codec_of(request)),
      memory_(row_bytes_ == 0 && !codec_ ? allocated(key.value().size(), key.dtype())
                                         : allocated(static_cast<std::int64_t>(request.bytes), DType::u8)) {
  if (codec_) decoded_ = allocated(key.value().size(), key.dtype());
}

std::uint64_t Incoming::bytes() const { return bytes_of(memory_); }

std::uint64_t Incoming::memory_bytes() const { return bytes() + bytes_of(decoded_); }

std::byte* Incoming::at(std::uint64_t offset) {
  if (offset == filled_) return memory_.data<std::byte>() + offset;
  throw MalformedMessage("key " + key_.name() + ": a piece at " + std::to_string(offset) + ", where one at " +
                         std::to_string(filled_) + " should follow");
}

bool Incoming::arrived(std::uint64_t offset, std::uint64_t piece) {
  if (offset != filled_) throw MalformedMessage("key " + key_.name() + ": pieces in disorder");
  filled_ = offset + piece;
  return filled_ == bytes();
}

void Incoming::complete() {
  if (row_bytes_ > 0) rows_ = rows_in(memory_, row_bytes_, key_.dtype(), key_.bytes() / row_bytes_);
  if (!codec_) return;
  try {
    codec_->decode({memory_.data<const std::byte>(), static_cast<std::size_t>(bytes())},
                   {decoded_.data<float>(), static_cast<std::size_t>(key_.value().size())});
  } catch (const Error& error) {
    throw MalformedMessage("key " + key_.name() + ": " + error.what());
  }
}

void Incoming::put_into(Push& push) && {
  push.rows = std::move(rows_.rows);
  push.value = row_bytes_ > 0 ? std::move(rows_.values) : codec_ ? std::move(decoded_) : std::move(memory_);
}

void IncomingValues::add(const StoredKey& key, const Request& request) {
  bytes_ += all_.try_emplace(&key, key, request).first->second.memory_bytes();
}

Incoming* IncomingValues::find(const StoredKey& key) {
  const auto found = all_.find(&key);
  return found == all_.end() ? nullptr : &found->second;
}

Incoming IncomingValues::take(const StoredKey& key) {
  Incoming taken = std::move(all_.extract(&key).mapped());
  bytes_ -= taken.memory_bytes();
  return taken;
}

void IncomingValues::drop(const StoredKey& key) {
  if (has(key)) take(key);
}

}  // namespace heddle::kv_detail
