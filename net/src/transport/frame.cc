#include "transport/frame.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <string>
#include <type_traits>

#include <isa-l/crc.h>

#include <heddle/comm_error.h>

namespace heddle::net_detail {
namespace {

constexpr std::uint32_t kFrameMagic = 0x564b4448;  // the bytes "HDKV"
constexpr std::uint16_t kFrameVersion = 1;
constexpr std::size_t kMostSummedAtOnce = 1 << 30;  // most bytes of one call: ISA-L takes an int

// The fields on the wire, without gaps. Numbers are little-endian there.
struct WireFields {
  std::uint32_t magic = kFrameMagic;
  std::uint16_t version = kFrameVersion, zeros = 0;
  std::uint32_t head_bytes = 0, head_checksum = 0;
  std::uint64_t payload_bytes = 0;
  std::uint32_t payload_checksum = 0;
  std::uint32_t checksum_before = 0;  // checksum of all fields above
};
static_assert(sizeof(WireFields) == kPreambleBytes && std::has_unique_object_representations_v<WireFields>);
static_assert(std::endian::native == std::endian::little);

constexpr std::size_t kSummedBytes = offsetof(WireFields, checksum_before);

[[noreturn]] void broken(const std::string& why) { throw CommError("a broken message: " + why); }

void check_bytes(const char* what, std::uint64_t bytes, std::size_t most) {
  if (bytes <= most) return;
  broken("its " + std::string(what) + " is announced with " + std::to_string(bytes) + " bytes; " +
         std::to_string(most) + " are allowed");
}

void check_sum(const char* what, std::span<const std::byte> bytes, std::uint32_t expected) {
  if (checksum(bytes) != expected) broken("the checksum of its " + std::string(what) + " is wrong");
}

}  // namespace

// CRC32C inverts the initial value and the result, which ISA-L leaves to the caller.
std::uint32_t checksum(std::span<const std::byte> bytes) {
  std::uint32_t sum = ~0u;
  while (!bytes.empty()) {
    const std::size_t part = std::min(bytes.size(), kMostSummedAtOnce);
    // crc32_iscsi() takes a pointer to memory that is not const, but only reads it.
    auto* buffer = const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(bytes.data()));
    sum = crc32_iscsi(buffer, static_cast<int>(part), sum);
    bytes = bytes.subspan(part);
  }
  return ~sum;
}

Preamble preamble_of(std::span<const std::byte> head, std::span<const std::byte> payload) {
  return {static_cast<std::uint32_t>(head.size()), checksum(head), payload.size(), checksum(payload)};
}

WirePreamble encode(const Preamble& preamble) {
  WireFields fields{.head_bytes = preamble.head_bytes,
                    .head_checksum = preamble.head_checksum,
                    .payload_bytes = preamble.payload_bytes,
                    .payload_checksum = preamble.payload_checksum};
  fields.checksum_before = checksum(std::as_bytes(std::span(&fields, 1)).first(kSummedBytes));
  return std::bit_cast<WirePreamble>(fields);
}

Preamble decode(std::span<const std::byte, kPreambleBytes> wire, const FrameLimits& limits) {
  WireFields fields;
  std::memcpy(&fields, wire.data(), sizeof fields);
  if (fields.magic != kFrameMagic) broken("it does not begin as one");
  check_sum("preamble", wire.first(kSummedBytes), fields.checksum_before);
  if (fields.version != kFrameVersion || fields.zeros != 0)
    broken("it has version " + std::to_string(fields.version) + "; this is version " +
           std::to_string(kFrameVersion));
  check_bytes("head", fields.head_bytes, limits.head);
  check_bytes("payload", fields.payload_bytes, limits.payload);
  return {fields.head_bytes, fields.head_checksum, fields.payload_bytes, fields.payload_checksum};
}

void check_head(const Preamble& preamble, std::span<const std::byte> head) {
  if (head.size() != preamble.head_bytes) broken("its head has another length than announced");
  check_sum("head", head, preamble.head_checksum);
}

void check_payload(const Preamble& preamble, std::span<const std::byte> payload) {
  if (payload.size() != preamble.payload_bytes) broken("its payload has another length than announced");
  check_sum("payload", payload, preamble.payload_checksum);
}

}  // namespace heddle::net_detail
