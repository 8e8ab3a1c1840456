// The value of a key on a server, as bytes: most keys need no array. The bytes are changed only while nobody
// else holds payload() or an array of them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include <heddle/ndarray.h>

#include "server/key/sole_owner.h"
#include "transport/transport.h"

namespace heddle::kv_detail {

using namespace net_detail;

class StoredValue {
 public:
  StoredValue(DType dtype, std::uint64_t bytes) : bytes_(bytes), dtype_(dtype) {}

  bool defined() const { return memory_ != nullptr; }
  DType dtype() const { return dtype_; }
  std::uint64_t bytes() const { return bytes_; }
  std::int64_t size() const { return static_cast<std::int64_t>(bytes_ / size_of(dtype_)); }

  Payload payload() const { return {memory_, {memory_.get(), bytes_}}; }
  NDArray array() const;  // a one-dimensional view of the bytes
  // An array that may be changed in place: of a copy, if somebody holds the bytes.
  NDArray array_to_change();
  bool may_change() const { return memory_ && is_held_only_by(1, memory_); }  // nobody else holds the bytes
  // Replaces the bytes by as many others, in place if nobody else holds them.
  void overwrite(std::span<const std::byte> bytes);
  // `value`: contiguous, of the same dtype and size. A large one is shared, not copied: others may change it
  // only after is_held_only_by(). Rethrows its error.
  void set(const NDArray& value);

 private:
  void copy_from(std::span<const std::byte> bytes);

  std::shared_ptr<std::byte> memory_{};
  std::uint64_t bytes_;
  DType dtype_;
};

}  // namespace heddle::kv_detail
