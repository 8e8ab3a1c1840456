// A key of a server as the only weight of its optimizer: its name in the optimizer's state, and its dtypes.
#pragma once

#include <cstdint>
#include <string>

#include <heddle/ndarray.h>

namespace heddle::kv_detail {

constexpr std::int64_t kSoleWeight = 0;
inline const std::string kSoleWeightPrefix = "0.";  // prefix of the weight's entries in the optimizer's state
constexpr const char* kWidthEntry = "width";        // name of an entry in the saved state of rows

// f16 and bf16 are added as f32, and the sum is rounded once.
inline NDArray widened(const NDArray& value) {
  return is_half(value.dtype()) ? value.astype(DType::f32) : value;
}

inline std::uint64_t bytes_of(const NDArray& array) {
  return array.defined() ? static_cast<std::uint64_t>(array.size()) * size_of(array.dtype()) : 0;
}

}  // namespace heddle::kv_detail
