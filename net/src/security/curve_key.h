// Keys of CURVE, the encryption of ZeroMQ: Curve25519, written in Z85 (ZeroMQ's RFC 32).
#pragma once

#include <string>

namespace heddle::net_detail {

constexpr std::size_t kCurveKeyText = 40;  // characters of Z85, for 32 bytes

// new_curve_secret() and curve_public_of() throw CommError if OpenSSL fails.
std::string new_curve_secret();
std::string curve_public_of(const std::string& secret);

bool is_curve_key(const std::string& text);            // whether text is a public or a secret key
std::string curve_key_text(const std::string& bytes);  // `bytes`: the 32 bytes of a key

}  // namespace heddle::net_detail
