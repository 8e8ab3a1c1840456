// Eight bytes at a time: Kounavis and Berry, "Novel table lookup-based algorithms for high-performance CRC generation",
// IEEE Transactions on Computers 57 (2008).
#include "files/crc32.h"

#include <array>
#include <bit>
#include <cstring>

namespace heddle::ndarray_detail {

namespace {

static_assert(std::endian::native == std::endian::little, "the first of eight bytes is the lowest");

constexpr std::uint32_t kPolynomial = 0xedb88320;  // the lowest power is the highest bit
constexpr std::size_t kSlices = 8;

using SliceTable = std::array<std::uint32_t, 256>;

// tables[k][b]: the effect of the byte b on the checksum after k more bytes.
constexpr std::array<SliceTable, kSlices> make_tables() {
  std::array<SliceTable, kSlices> tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t sum = byte;
    for (int bit = 0; bit < 8; ++bit) sum = sum >> 1 ^ (sum & 1 ? kPolynomial : 0);
    tables[0][byte] = sum;
  }
  for (std::size_t k = 1; k < kSlices; ++k) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t before = tables[k - 1][byte];
      tables[k][byte] = before >> 8 ^ tables[0][before & 0xff];
    }
  }
  return tables;
}

constexpr std::array<SliceTable, kSlices> kTables = make_tables();

}  // namespace

std::uint32_t crc32(const void* data, std::size_t bytes) {
  const auto* at = static_cast<const unsigned char*>(data);
  std::uint32_t sum = 0xffffffff;
  for (; bytes >= kSlices; bytes -= kSlices, at += kSlices) {
    std::uint64_t eight;
    std::memcpy(&eight, at, sizeof eight);
    eight ^= sum;
    sum = 0;
    for (std::size_t k = 0; k < kSlices; ++k) sum ^= kTables[kSlices - 1 - k][eight >> (8 * k) & 0xff];
  }
  for (; bytes > 0; --bytes, ++at) sum = sum >> 8 ^ kTables[0][(sum ^ *at) & 0xff];
  return ~sum;
}

}  // namespace heddle::ndarray_detail
