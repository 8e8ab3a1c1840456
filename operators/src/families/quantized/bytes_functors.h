// How numbers become bytes, for kernels of the CPU and of GPUs: C++17, as nvcc compiles it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "core/functor.h"

namespace heddle::functors {

// The scale of the input. Any numbers give bytes.
struct ByteScale {
  float scale, inverse, zero;
  std::int32_t zero_point;

  HEDDLE_FUNCTOR ByteScale(float of_input, std::int32_t zero_of_input)
      : scale(of_input),
        inverse(1 / scale),
        zero_point(zero_of_input < 0     ? 0
                   : zero_of_input > 255 ? 255
                                         : zero_of_input) {
    zero = static_cast<float>(zero_point);
  }
  HEDDLE_FUNCTOR std::uint8_t operator()(float x) const {
    float steps = x * inverse;
    steps = steps == steps ? steps : 0.0f;
    const float place = std::nearbyint(steps) + zero;
    return static_cast<std::uint8_t>(static_cast<std::int32_t>(std::min(std::max(place, 0.0f), 255.0f)));
  }
};

}  // namespace heddle::functors
