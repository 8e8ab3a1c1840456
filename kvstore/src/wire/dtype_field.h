// The dtype of an array as a field of a message: one byte.
#pragma once

#include <string>

#include <heddle/dtype.h>

#include "transport/bytes.h"

namespace heddle::kv_detail {

using namespace net_detail;

// Throws MalformedMessage if `dtype`, which was read from a message, is no valid dtype.
inline void check_dtype(DType dtype) {
  const int number = static_cast<int>(dtype);
  if (!is_dtype(static_cast<std::uint64_t>(number)))
    throw MalformedMessage("dtype " + std::to_string(number) + ", which is none");
}

}  // namespace heddle::kv_detail
