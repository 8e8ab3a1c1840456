// The value of a key on a server. It is kept as bytes, since most keys need no array. The bytes are changed
// in place only while nobody else holds a payload() or an array of them.
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
  // A view of the bytes to change the value through. If somebody else holds the bytes, they are copied first.
  NDArray array_to_change();
  // Whether nobody else holds the bytes, so that they may be changed in place.
  bool may_change() const { return memory_ && is_held_only_by(1, memory_); }
  // Replaces the value by `bytes`, which have the same size, in place if may_change().
  void overwrite(std::span<const std::byte> bytes);
  // Replaces the value. `value`: contiguous, of the same dtype and size. The memory of a large array is
  // shared, not copied: its other holders must not change it before is_held_only_by() is true. Rethrows the
  // array's error.
  void set(const NDArray& value);

 private:
  void copy_from(std::span<const std::byte> bytes);

  std::shared_ptr<std::byte> memory_{};
  std::uint64_t bytes_;
  DType dtype_;
};

}  // namespace heddle::kv_detail
