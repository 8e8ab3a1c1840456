// Kernel types of random distributions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <heddle/array_error.h>
#include <heddle/elementwise.h>
#include <heddle/kernel_context.h>
#include <heddle/number_text.h>
#include <heddle/random.h>

#include "families/random/stream_functors.h"

namespace heddle {

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

// Throws InvalidArgument for a parameter's value at the place of element i of a result of this shape.
[[noreturn]] inline void refuse_parameter(const char* op, const char* name, double value, const Shape& shape,
                                          std::int64_t i) {
  std::string position = std::to_string(i);
  if (shape.size() != 1) {
    Dims at = shape;
    for (int axis = at.size() - 1; axis >= 0; --axis) {
      at[axis] = i % shape[axis];
      i /= shape[axis];
    }
    position = at.to_string();
  }
  throw InvalidArgument(std::string(op) + ": " + name + " is " + number_text(value) + " at position " +
                        position + ", out of its range");
}

// y (rows, samples), i64, contiguous: indices into the rows of x (rows, n), f64, contiguous. Element i is
// drawn from counter position start + i; without replacement, row r from start + r * samples.
using IndexDrawKernel = void(const KernelContext& context, const char* op, RandomBlocks range,
                             const NDArray& x, bool replacement, const NDArray& y);

// Why a row of logits is refused: one of them is NaN or infinity, or `value` is -infinity, the largest of all.
[[noreturn]] inline void refuse_logits(const char* op, std::int64_t row, double value, bool largest) {
  throw InvalidArgument(std::string(op) + ": row " + std::to_string(row) + " has " +
                        (largest ? "no logit above -infinity" : "the logit " + number_text(value)));
}

// Why a row of weights is refused: `value` is one of them, or how many are above 0.
enum class WeightFault : std::uint8_t { weight, sum, few };
[[noreturn]] inline void refuse_weights(const char* op, std::int64_t row, WeightFault fault, double value,
                                        std::int64_t wanted) {
  std::string what = "has weights with an infinite sum";
  if (fault == WeightFault::weight) what = "has the weight " + number_text(value);
  if (fault == WeightFault::few) {
    what = "has " + std::to_string(static_cast<std::int64_t>(value)) + " weights above 0; wanted at least " +
           std::to_string(wanted);
  }
  throw InvalidArgument(std::string(op) + ": row " + std::to_string(row) + " " + what);
}

}  // namespace heddle
