#include "transport/frame.h"

#include <algorithm>
#include <string>

#include <isa-l/crc.h>

#include <heddle/comm_error.h>

namespace heddle::net_detail {
namespace {

constexpr std::uint32_t kFrameMagic = 0x564b4448;  // the bytes "HDKV"
constexpr std::uint16_t kFrameVersion = 1;
constexpr std::size_t kMostSummedAtOnce = 1 << 30;  // most bytes of one call: ISA-L takes an int

// Writes little-endian numbers in sequence.
class Writer {
 public:
  explicit Writer(std::span<std::byte> to) : to_(to) {}
  template <class T> void put(T value) {
    for (std::size_t i = 0; i < sizeof value; ++i) to_[at_++] = static_cast<std::byte>(value >> 8 * i);
  }

 private:
  std::span<std::byte> to_;
  std::size_t at_ = 0;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> from) : from_(from) {}
  template <class T> T get() {
    T value = 0;
    for (std::size_t i = 0; i < sizeof value; ++i)
      value |= static_cast<T>(static_cast<T>(from_[at_++]) << 8 * i);
    return value;
  }

 private:
  std::span<const std::byte> from_;
  std::size_t at_ = 0;
};

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
  WirePreamble wire{};
  Writer writer(wire);
  writer.put(kFrameMagic);
  writer.put(kFrameVersion);
  writer.put(std::uint16_t{0});
  writer.put(preamble.head_bytes);
  writer.put(preamble.head_checksum);
  writer.put(preamble.payload_bytes);
  writer.put(preamble.payload_checksum);
  writer.put(checksum(std::span(wire).first(kPreambleBytes - 4)));
  return wire;
}

Preamble decode(std::span<const std::byte, kPreambleBytes> wire, const FrameLimits& limits) {
  Reader reader(wire);
  if (reader.get<std::uint32_t>() != kFrameMagic) broken("it does not begin as one");
  const auto version = reader.get<std::uint16_t>();
  const auto zeros = reader.get<std::uint16_t>();
  Preamble preamble;
  preamble.head_bytes = reader.get<std::uint32_t>();
  preamble.head_checksum = reader.get<std::uint32_t>();
  preamble.payload_bytes = reader.get<std::uint64_t>();
  preamble.payload_checksum = reader.get<std::uint32_t>();
  check_sum("preamble", wire.first(kPreambleBytes - 4), reader.get<std::uint32_t>());
  if (version != kFrameVersion || zeros != 0)
    broken("it has version " + std::to_string(version) + "; this is version " +
           std::to_string(kFrameVersion));
  check_bytes("head", preamble.head_bytes, limits.head);
  check_bytes("payload", preamble.payload_bytes, limits.payload);
  return preamble;
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
