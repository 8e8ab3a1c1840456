// Kernel types of random distributions.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include <heddle/elementwise.h>
#include <heddle/kernel_context.h>
#include <heddle/random.h>

namespace heddle {

// The range of a distribution's parameter.
enum class ParameterRange : std::uint8_t { positive, not_negative, probability, count, any };

inline bool fits(ParameterRange range, double value) {
  if (!std::isfinite(value)) return range == ParameterRange::any;
  switch (range) {
    case ParameterRange::positive:
      return value > 0;
    case ParameterRange::not_negative:
      return value >= 0;
    case ParameterRange::probability:
      return value >= 0 && value <= 1;
    case ParameterRange::count:
      return value >= 0 && value <= 0x1p53 && value == std::floor(value);
    case ParameterRange::any:
      break;
  }
  return true;
}

struct DistributionParameter {
  const char* name;
  ParameterRange range;
  Operand value;  // a number, or a contiguous f64 array of the shape of the result
};

// One draw. y is contiguous, f32 or f64, or of any dtype for counts. Element i is drawn from counter position
// start + i. Errors name `op`, a string literal.
struct DistributionCall {
  const char* op;
  RandomBlocks range;
  std::vector<DistributionParameter> parameters;
  NDArray y;
};
using DistributionKernel = void(const KernelContext& context, const DistributionCall& call);

// y (rows, samples), i64, contiguous: indices into the rows of x (rows, n), f64, contiguous. Element i is
// drawn from counter position start + i; without replacement, row r from start + r * samples.
using IndexDrawKernel = void(const KernelContext& context, const char* op, RandomBlocks range,
                             const NDArray& x, bool replacement, const NDArray& y);

}  // namespace heddle
