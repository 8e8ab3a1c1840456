// Bytes as text in base64 (RFC 4648, section 4).
#pragma once

#include <optional>
#include <string>

namespace heddle::net_detail {

// `bytes` must not be longer than 1 GiB.
std::string to_base64(const std::string& bytes);
std::optional<std::string> from_base64(const std::string& text);  // nullopt: the text is no base64

}  // namespace heddle::net_detail
