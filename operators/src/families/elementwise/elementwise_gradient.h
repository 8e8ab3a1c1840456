// The gradients of elementwise operators, and how they are recorded.
#pragma once

#include <heddle/elementwise.h>

#include "families/elementwise/elementwise_rule.h"

namespace heddle::operators_detail {

// The gradient of y = f(x): of(g, saved) if `of` is set; else kernel(g, saved), a binary operator, or
// kernel(g), a unary one, if nothing is saved.
struct UnaryGradient {
  enum Saves { nothing, input, output } saves;
  const char* kernel = nullptr;
  NDArray (*of)(const NDArray& gradient, const NDArray& saved) = nullptr;
};

// The arguments of a Partial. Arrays that it does not use, by its flags, are undefined.
struct BinaryValues {
  NDArray gradient;  // gradient of y
  Operand a, b;
  NDArray y;
};

// Computes the gradient of one operand, not yet summed to its shape. The flags say which arrays must be saved for it.
struct Partial {
  NDArray (*of)(const BinaryValues& values);
  bool uses_a = false, uses_b = false, uses_y = false;
};

struct BinaryGradient {
  Partial left, right;
};

extern const BinaryGradient kAddGradient, kSubtractGradient, kMultiplyGradient, kDivideGradient,
    kPowerGradient, kMaximumGradient, kMinimumGradient;

// Operators with a gradient: check the arguments, push the op, and record it on the tape if an operand needs
// a gradient.
NDArray unary(const char* op, Family family, const NDArray& x, const UnaryGradient& gradient);
NDArray binary(const char* op, Family family, const Operand& a, const Operand& b,
               const BinaryGradient& gradient);
// Operators that give bool and have no gradient.
NDArray compare(const char* op, const Operand& a, const Operand& b);
NDArray classify(const char* op, const NDArray& x);
// Prepares an operand of compare: a scalar above the int64 range is compared as infinity, since in f64 some
// integers of the array would be rounded up to it.
Operand comparable(const Operand& operand, const Operand& other);

// Returns 0, the gradient of an operator that is constant between steps; it is on the tape if the gradient g
// is.
NDArray no_change(const NDArray& g);
NDArray no_change(const NDArray& g, const Shape& shape, DType dtype);

// These record on the tape how y was made, if an operand needs a gradient.
void record_constant(const char* op, NDArray& y, const NDArray& x);  // y does not change with x
void record_unary(const char* op, NDArray& y, const NDArray& x, const UnaryGradient& gradient);
void record_binary(const char* op, NDArray& y, const Operand& a, const Operand& b,
                   const BinaryGradient& gradient);

}  // namespace heddle::operators_detail
