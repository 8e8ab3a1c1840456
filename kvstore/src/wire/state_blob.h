// Arrays with names as bytes: the state that an optimizer keeps of a key.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <heddle/ndarray.h>

namespace heddle::kv_detail {

using StateArrays = std::map<std::string, NDArray>;  // one-dimensional; "velocity", "updates" and so on

// Blocks until the arrays are computed.
std::vector<std::byte> encode_state(const StateArrays& arrays);
// Throws MalformedMessage.
StateArrays decode_state(std::span<const std::byte> bytes);

}  // namespace heddle::kv_detail
