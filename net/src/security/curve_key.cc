#include "security/curve_key.h"

#include <array>
#include <cstdint>
#include <memory>

#include <openssl/evp.h>

#include <heddle/comm_error.h>

#include "security/tls_key.h"

namespace heddle::net_detail {
namespace {

constexpr std::string_view kZ85Digits =
    "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";
constexpr std::size_t kKeyBytes = 32;

using RawKey = std::array<unsigned char, kKeyBytes>;
using Key25519 = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;

std::string text_of(const RawKey& key) {
  return curve_key_text({reinterpret_cast<const char*>(key.data()), key.size()});
}

// Every five digits are four bytes, the most significant first.
RawKey bytes_of(const std::string& text) {
  RawKey key{};
  for (std::size_t group = 0; group < kKeyBytes / 4; ++group) {
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < 5; ++i)
      value = value * 85 + static_cast<std::uint32_t>(kZ85Digits.find(text[5 * group + i]));
    for (std::size_t i = 0; i < 4; ++i)
      key[4 * group + i] = static_cast<unsigned char>(value >> (24 - 8 * i));
  }
  return key;
}

}  // namespace

std::string new_curve_secret() {
  const Key25519 key(EVP_PKEY_Q_keygen(nullptr, nullptr, "X25519"), EVP_PKEY_free);
  RawKey secret{};
  std::size_t size = secret.size();
  if (!key || EVP_PKEY_get_raw_private_key(key.get(), secret.data(), &size) != 1) tls_failed("make a key");
  return text_of(secret);
}

std::string curve_public_of(const std::string& secret) {
  const RawKey raw = bytes_of(secret);
  const Key25519 key(EVP_PKEY_new_raw_private_key(EVP_PKEY_X25519, nullptr, raw.data(), raw.size()),
                     EVP_PKEY_free);
  RawKey open{};
  std::size_t size = open.size();
  if (!key || EVP_PKEY_get_raw_public_key(key.get(), open.data(), &size) != 1) tls_failed("read a key");
  return text_of(open);
}

bool is_curve_key(const std::string& text) {
  if (text.size() != kCurveKeyText || text.find_first_not_of(kZ85Digits) != std::string::npos) return false;
  for (std::size_t group = 0; group < text.size(); group += 5) {  // five digits can exceed 32 bits
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < 5; ++i) value = value * 85 + kZ85Digits.find(text[group + i]);
    if (value > 0xffffffff) return false;
  }
  return true;
}

std::string curve_key_text(const std::string& bytes) {
  std::string text;
  for (std::size_t group = 0; group + 4 <= bytes.size(); group += 4) {
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<unsigned char>(bytes[group + i]);
    std::array<char, 5> digits{};
    for (std::size_t i = 5; i-- > 0; value /= 85) digits[i] = kZ85Digits[value % 85];
    text.append(digits.data(), digits.size());
  }
  return text;
}

}  // namespace heddle::net_detail
