// Random bits as a number in a range.
#pragma once

#include <cstdint>

namespace heddle::data_detail {

// bits * below / 2^64: 0 .. below - 1, each as likely as the others up to 2^-64 * below.
inline std::int64_t scaled(std::uint64_t bits, std::int64_t below) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::int64_t>(static_cast<Wide>(bits) * static_cast<std::uint64_t>(below) >> 64);
}

}  // namespace heddle::data_detail
