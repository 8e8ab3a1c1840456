// The hash FNV-1a of 64 bits, http://www.isthe.com/chongo/tech/comp/fnv. It is the same on all machines, so that
// processes can compare it; it is no protection against an attacker.
#pragma once

#include <cstdint>
#include <string_view>

namespace heddle::net_detail {

constexpr std::uint64_t kFnvBegin = 0xcbf29ce484222325;

// The hash of `text`, or of what `hash` has been made of and `text` behind it.
constexpr std::uint64_t fnv1a(std::string_view text, std::uint64_t hash = kFnvBegin) {
  for (const char letter : text) hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3;
  return hash;
}

}  // namespace heddle::net_detail
