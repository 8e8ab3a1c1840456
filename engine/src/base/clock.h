// The engine's clock, which never jumps.
#pragma once

#include <chrono>
#include <cstdint>

namespace heddle::detail {

inline std::uint64_t nanoseconds() noexcept {
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

}  // namespace heddle::detail
