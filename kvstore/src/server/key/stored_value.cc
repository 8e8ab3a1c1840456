#include "server/key/stored_value.h"

#include <algorithm>

namespace heddle::kv_detail {
namespace {

// Values of at most this size are copied from their array, since an array takes some hundred bytes and a var.
constexpr std::uint64_t kMostCopied = 1024;

}  // namespace

NDArray StoredValue::array() const {
  return {std::make_shared<Storage>(current_engine(), cpu(), bytes_, memory_), {size()}, dtype_};
}

NDArray StoredValue::array_to_change() {
  if (!may_change()) copy_from(payload().bytes);
  return array();
}

void StoredValue::overwrite(std::span<const std::byte> bytes) {
  if (!may_change()) return copy_from(bytes);
  std::copy(bytes.begin(), bytes.end(), memory_.get());
}

void StoredValue::set(const NDArray& value) {
  value.wait();
  if (bytes_ <= kMostCopied)
    return copy_from({bytes_ == 0 ? nullptr : value.data<const std::byte>(), bytes_});
  memory_ = {value.storage(), value.data<std::byte>()};
}

void StoredValue::copy_from(std::span<const std::byte> bytes) {
  constexpr std::size_t kWord = sizeof(std::uint64_t);  // alignment that suits all elements
  const std::size_t count = std::max<std::size_t>(1, (bytes.size() + kWord - 1) / kWord);
  // HeldMemory has weak pointers to large values. With them the memory of make_shared() would not be freed.
  const auto words = bytes.size() <= kMostCopied ? std::make_shared_for_overwrite<std::uint64_t[]>(count)
                                                 : std::shared_ptr<std::uint64_t[]>(new std::uint64_t[count]);
  memory_ = {words, reinterpret_cast<std::byte*>(words.get())};
  std::copy(bytes.begin(), bytes.end(), memory_.get());
}

}  // namespace heddle::kv_detail
