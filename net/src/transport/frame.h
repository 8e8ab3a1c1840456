// The wire format of a message: preamble, head and payload, each with a checksum; little-endian.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace heddle::net_detail {

// CRC32C (Castagnoli), as in iSCSI and SSE 4.2: that of "123456789" is 0xE3069283.
std::uint32_t checksum(std::span<const std::byte> bytes);

struct Preamble {
  std::uint32_t head_bytes = 0, head_checksum = 0;
  std::uint64_t payload_bytes = 0;
  std::uint32_t payload_checksum = 0;
};

// Bytes of the fields on the wire: magic 4, version 2, zeros 2, head bytes 4, head checksum 4, payload bytes
// 8, payload checksum 4, checksum of all before 4.
constexpr std::size_t kPreambleBytes = 32;
using WirePreamble = std::array<std::byte, kPreambleBytes>;

// The preamble of a message with this head and payload.
Preamble preamble_of(std::span<const std::byte> head, std::span<const std::byte> payload);
WirePreamble encode(const Preamble& preamble);

struct FrameLimits {
  std::size_t head = 0, payload = 0;  // most bytes of a head, of a payload
};
// Throws CommError, which says what is wrong, unless `wire` is a preamble within the limits.
Preamble decode(std::span<const std::byte, kPreambleBytes> wire, const FrameLimits& limits);

// Throw CommError if the bytes have not the length and checksum that the preamble announces.
void check_head(const Preamble& preamble, std::span<const std::byte> head);
void check_payload(const Preamble& preamble, std::span<const std::byte> payload);

}  // namespace heddle::net_detail
