// Checks of paths that callers pass.
#pragma once

#include <string>

#include <heddle/error.h>

namespace heddle::ndarray_detail {

// Refuses a zero byte in the path, since the system would take the part before it for the whole path.
inline void check_path(const std::string& path) {
  const std::size_t zero = path.find('\0');
  if (zero == std::string::npos) return;
  throw InvalidArgument("the path '" + path.substr(0, zero) +
                        "' goes on behind a zero byte, which no path has");
}

}  // namespace heddle::ndarray_detail
