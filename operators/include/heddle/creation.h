// More functions that make arrays. Those named `_like` take the shape, dtype, device and engine of x.
#pragma once

#include <cstdint>

#include <heddle/elementwise.h>
#include <heddle/random.h>

namespace heddle {

// `num` numbers with equal steps from start to stop; without `endpoint` stop is left out. Throws
// InvalidArgument for a negative num.
NDArray linspace(double start, double stop, std::int64_t num = 50, bool endpoint = true,
                 DType dtype = DType::f32, Device device = cpu(), Where where = Where::current());
// base to the power of the numbers that linspace() returns.
NDArray logspace(double start, double stop, std::int64_t num = 50, bool endpoint = true, double base = 10,
                 DType dtype = DType::f32, Device device = cpu(), Where where = Where::current());

NDArray full_like(const NDArray& x, Scalar value, Where where = Where::current());
NDArray ones_like(const NDArray& x, Where where = Where::current());
NDArray empty_like(const NDArray& x, Where where = Where::current());  // with undetermined values

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
