// A key of a server as the one weight of its optimizer: how it is called in the optimizer's state, and what it is updated as.
#pragma once

#include <cstdint>
#include <string>

#include <heddle/ndarray.h>

namespace heddle::kv_detail {

constexpr std::int64_t kSoleWeight = 0;
inline const std::string kSoleWeightPrefix = "0.";  // of its entries in the optimizer's state
constexpr const char* kWidthEntry = "width";        // of the saved state of rows

// Halves are added as f32, and the sum is rounded once.
inline NDArray widened(const NDArray& value) {
  return is_half(value.dtype()) ? value.astype(DType::f32) : value;
}

inline std::uint64_t bytes_of(const NDArray& array) {
  return array.defined() ? static_cast<std::uint64_t>(array.size()) * size_of(array.dtype()) : 0;
}

}  // namespace heddle::kv_detail
