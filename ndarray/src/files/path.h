// Paths as callers give them.
#pragma once

#include <string>

#include <heddle/error.h>

namespace heddle::ndarray_detail {

// The system would take what stands before a zero byte for the whole path.
inline void check_path(const std::string& path) {
  const std::size_t zero = path.find('\0');
  if (zero == std::string::npos) return;
  throw InvalidArgument("the path '" + path.substr(0, zero) +
                        "' goes on behind a zero byte, which no path has");
}

}  // namespace heddle::ndarray_detail
