// A new array for a public function.
#pragma once

#include <heddle/ndarray.h>

namespace heddle::ndarray_detail {

// Makes an array of undetermined values for the public function `name`, which errors of shape or device name.
inline NDArray new_array(const char* name, const Shape& shape, DType dtype, Device device) {
  return in_name_of(name, [&] { return NDArray(shape, dtype, device); });
}

}  // namespace heddle::ndarray_detail
