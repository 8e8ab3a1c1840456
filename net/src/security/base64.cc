#include "security/base64.h"

#include <openssl/evp.h>

namespace heddle::net_detail {
namespace {

const unsigned char* base64_input(const std::string& bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

unsigned char* base64_output(std::string& bytes) { return reinterpret_cast<unsigned char*>(bytes.data()); }

}  // namespace

std::string to_base64(const std::string& bytes) {
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');  // OpenSSL writes a zero byte at the end
  const int size = EVP_EncodeBlock(base64_output(text), base64_input(bytes), static_cast<int>(bytes.size()));
  text.resize(static_cast<std::size_t>(size));
  return text;
}

// OpenSSL skips blanks at both ends, takes '=' anywhere for zeros, and counts the zeros of those at the end as
// bytes of the result.
std::optional<std::string> from_base64(const std::string& text) {
  const std::size_t padding = text.size() - (text.find_last_not_of('=') + 1);
  if (text.size() % 4 != 0 || padding > 2 || text.find('=') < text.size() - padding) return std::nullopt;
  std::string bytes(text.size() / 4 * 3, '\0');
  const int size = EVP_DecodeBlock(base64_output(bytes), base64_input(text), static_cast<int>(text.size()));
  if (size < 0 || static_cast<std::size_t>(size) != bytes.size()) return std::nullopt;
  bytes.resize(bytes.size() - padding);
  return bytes;
}

}  // namespace heddle::net_detail
