// A key of a server as the only weight of its optimizer: its name in the optimizer's state, and its dtypes.
#pragma once

#include <cstdint>
#include <string>

#include <heddle/ndarray.h>

namespace heddle::kv_detail {

constexpr std::int64_t kSoleWeight = 0;
inline constexpr std::string kSoleWeightPrefix =
    "0.";  // prefix of the weight's entries in the optimizer's state
// Saved state of rows: entry with the number of elements of a row.
constexpr const char* kWidthEntry = "width";

// Converts f16 and bf16 to f32, in which they are added, so that the sum is rounded only once.
inline NDArray widened(const NDArray& value) {
  return is_half(value.dtype()) ? value.astype(DType::f32) : value;
}

inline std::uint64_t bytes_of(const NDArray& array) {
  return array.defined() ? static_cast<std::uint64_t>(array.size()) * size_of(array.dtype()) : 0;
}

}  // namespace heddle::kv_detail
