// The dtype of an array as a field of a message: one byte.
#pragma once

#include <cstdint>
#include <string>

#include <heddle/dtype.h>

#include "transport/bytes.h"

namespace heddle::kv_detail {

using namespace net_detail;

inline DType get_dtype(Reader& reader) {
  const auto value = reader.get<std::uint8_t>();
  if (!is_dtype(value)) throw MalformedMessage("dtype " + std::to_string(value) + ", which is none");
  return static_cast<DType>(value);
}

}  // namespace heddle::kv_detail
