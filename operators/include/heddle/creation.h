// More functions that make arrays. Those named `_like` take the shape, dtype, device and engine of x.
#pragma once

#include <cstdint>

#include <heddle/elementwise.h>

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

}  // namespace heddle
