// A new array for a public function.
#pragma once

#include <heddle/ndarray.h>

namespace heddle::ndarray_detail {

// An array of undetermined values. Errors of shape or device name the function `name`.
inline NDArray new_array(const char* name, const Shape& shape, DType dtype, Device device) {
  return in_name_of(name, [&] { return NDArray(shape, dtype, device); });
}

}  // namespace heddle::ndarray_detail
