// The initial values of layers' weights.
#pragma once

#include <heddle/ndarray.h>
#include <heddle/random.h>

namespace heddle {

// How weights start, uniform in +-limit; biases start at 0.
enum class Init {
  he,      // limit sqrt(6 / fan_in): for relu (He et al., ICCV'15)
  xavier,  // limit sqrt(6 / (fan_in + fan_out)): for tanh, sigmoid, none (Glorot and Bengio, AISTATS'10)
};

// A weight of shape (out, in, ...) as an Init says, f32, requiring a gradient.
NDArray init_weight(const Shape& shape, Init init, Generator& generator, Device device = cpu(),
                    Where where = Where::current());

}  // namespace heddle
