// Bounds of clip() in the dtype of its elements.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>

#include <heddle/dtype.h>
#include <heddle/scalar.h>

namespace heddle {

// Converts a bound to T. For a bound outside T's range the nearest value of T gives the same result.
template <class T> T bound_as(Scalar bound) {
  if constexpr (std::is_floating_point_v<T>) {
    return bound.as<T>();
  } else {
    using Limits = std::numeric_limits<T>;
    if (bound.is_huge())
      return static_cast<T>(std::min<std::uint64_t>(bound.as<std::uint64_t>(), Limits::max()));
    const auto wide = bound.as<std::int64_t>();
    if constexpr (std::is_same_v<T, bool>)
      return wide > 0;
    else if (std::in_range<T>(wide))
      return static_cast<T>(wide);
    return wide < 0 ? Limits::min() : Limits::max();
  }
}

// Converts a bound to f32, rounded to the half type.
inline float half_bound(Scalar bound, DType dtype) {
  return dtype == DType::f16 ? static_cast<float>(bound.as<Float16>())
                             : static_cast<float>(bound.as<BFloat16>());
}

}  // namespace heddle
