#include "wire/state_blob.h"

#include <cstring>

#include "transport/bytes.h"
#include "wire/dtype_field.h"

namespace heddle::kv_detail {

using namespace net_detail;
namespace {

constexpr std::size_t kMaxStateName = 64;

NDArray blob_from(Reader& reader) {
  const DType dtype = get_dtype(reader);
  const auto bytes = reader.get<std::uint64_t>();
  const std::span<const std::byte> from = reader.get_bytes(bytes);
  const std::size_t element = size_of(dtype);
  if (bytes % element != 0) throw MalformedMessage("an array of " + std::to_string(bytes) + " bytes");
  NDArray array({static_cast<std::int64_t>(bytes / element)}, dtype);
  array.wait();
  if (bytes > 0) std::memcpy(array.data<std::byte>(), from.data(), bytes);
  return array;
}

}  // namespace

std::vector<std::byte> encode_state(const StateArrays& arrays) {
  Writer writer;
  for (const auto& [name, array] : arrays) {
    const NDArray flat = array.contiguous();
    flat.wait();
    const std::size_t bytes = static_cast<std::size_t>(flat.size()) * size_of(flat.dtype());
    writer.put(name);
    writer.put(static_cast<std::uint8_t>(flat.dtype()));
    writer.put(static_cast<std::uint64_t>(bytes));
    writer.put(std::span(flat.data<const std::byte>(), bytes));
  }
  return writer.take();
}

StateArrays decode_state(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  StateArrays arrays;
  while (reader.left() > 0) {
    const std::string name = reader.get_text(kMaxStateName);
    if (!arrays.emplace(name, blob_from(reader)).second) throw MalformedMessage("'" + name + "' comes twice");
  }
  return arrays;
}

}  // namespace heddle::kv_detail
