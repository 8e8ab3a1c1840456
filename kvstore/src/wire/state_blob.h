// Serialises named arrays: the optimizer's state of a key.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <heddle/ndarray.h>

namespace heddle::kv_detail {

using StateArrays = std::map<std::string, NDArray>;  // one-dimensional arrays by name, such as "velocity"

// Serialises arrays. Blocks until they are computed.
std::vector<std::byte> encode_state(const StateArrays& arrays);
// Parses the bytes that encode_state() has made. Throws MalformedMessage.
StateArrays decode_state(std::span<const std::byte> bytes);

}  // namespace heddle::kv_detail
