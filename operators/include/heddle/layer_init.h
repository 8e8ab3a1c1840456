// The initial values of layers' weights.
#pragma once

#include <heddle/ndarray.h>
#include <heddle/random.h>

namespace heddle {

// The limit of initial weights, which are uniform in [-limit, limit]. Biases start at 0.
enum class Init {
  he,  // limit is sqrt(6 / fan_in): for relu (He et al., ICCV'15)
  // Limit is sqrt(6 / (fan_in + fan_out)): for tanh, sigmoid and none (Glorot and Bengio, AISTATS'10).
  xavier,
};

// Makes a weight of shape (out, in, ...), f32, requiring a gradient, drawn as `init` says.
NDArray init_weight(const Shape& shape, Init init, Generator& generator, Device device = cpu(),
                    Where where = Where::current());

}  // namespace heddle
