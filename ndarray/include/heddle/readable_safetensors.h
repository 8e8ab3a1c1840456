// Files of the safetensors format that have dtypes of other libraries too, such as F8_E4M3.
#pragma once

#include <map>
#include <string>

#include <heddle/ndarray.h>

namespace heddle::ndarray_detail {

struct ReadableSafetensors {
  std::map<std::string, NDArray> arrays{};
  std::map<std::string, std::string> unreadable{};  // the other ones: names of their dtypes in the file
};

// As map_safetensors(), for the arrays of dtypes that there are.
ReadableSafetensors map_readable_safetensors(const std::string& path);

}  // namespace heddle::ndarray_detail
