#include "wire/state_blob.h"

#include <cstring>

#include "transport/bytes.h"
#include "wire/dtype_field.h"

namespace heddle::kv_detail {

using namespace net_detail;
namespace {

constexpr std::size_t kMaxStateName = 64;

// The fields of an encoded array that come before its elements.
struct ArrayHead {
  std::string name{};
  DType dtype = DType::f32;
  std::uint64_t bytes = 0;

  static void fields(auto& archive, auto& self) {
    archive.text(self.name, kMaxStateName);
    archive(self.dtype, self.bytes);
  }
  void check() const { check_dtype(dtype); }
};

NDArray array_from(Reader& reader, const ArrayHead& head) {
  const std::span<const std::byte> from = reader.bytes(head.bytes);
  const std::size_t element = size_of(head.dtype);
  if (head.bytes % element != 0)
    throw MalformedMessage("an array of " + std::to_string(head.bytes) + " bytes");
  NDArray array({static_cast<std::int64_t>(head.bytes / element)}, head.dtype);
  array.wait();
  if (head.bytes > 0) std::memcpy(array.data<std::byte>(), from.data(), head.bytes);
  return array;
}

}  // namespace

std::vector<std::byte> encode_state(const StateArrays& arrays) {
  Writer writer;
  for (const auto& [name, array] : arrays) {
    const NDArray flat = array.contiguous();
    flat.wait();
    const std::size_t bytes = static_cast<std::size_t>(flat.size()) * size_of(flat.dtype());
    writer(ArrayHead{name, flat.dtype(), bytes});
    writer.bytes(std::span(flat.data<const std::byte>(), bytes));
  }
  return writer.take();
}

StateArrays decode_state(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  StateArrays arrays;
  while (reader.left() > 0) {
    const auto head = reader.get<ArrayHead>();
    if (!arrays.emplace(head.name, array_from(reader, head)).second)
      throw MalformedMessage("'" + head.name + "' comes twice");
  }
  return arrays;
}

}  // namespace heddle::kv_detail
