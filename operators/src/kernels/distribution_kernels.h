// What random distributions ask of a device.
#pragma once

#include <cstdint>
#include <vector>

#include <heddle/elementwise.h>

namespace heddle {

// The part of a generator's counter that one draw has: `start` and what follows.
struct DrawnRange {
  std::uint64_t seed, start;
};

// What a parameter may be.
enum class ParameterRange : std::uint8_t { positive, not_negative, probability, count, any };

struct DistributionParameter {
  const char* name;
  ParameterRange range;
  Operand value;  // an array: f64, contiguous, of the result's shape
};

// y: contiguous, f32, f64 or, for counts, any dtype; element i is drawn from position start + i. Errors name `op`, a literal.
struct DistributionCall {
  const char* op;
  DrawnRange range;
  std::vector<DistributionParameter> parameters;
  NDArray y;
};
using DistributionKernel = void(const DistributionCall& call);

// y (rows, samples), i64, contiguous: indices into the rows of x (rows, n), f64, contiguous. Element i is drawn from position
// start + i; without replacement row r from start + r * samples.
using IndexDrawKernel = void(const char* op, DrawnRange range, const NDArray& x, bool replacement,
                             const NDArray& y);

}  // namespace heddle
