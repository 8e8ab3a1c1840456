// The gradients of elementwise operators, and how they are recorded.
#pragma once

#include <heddle/elementwise.h>

namespace heddle::operators_detail {

// The gradient of y = f(x): kernel(g, saved), a binary operator, or kernel(g), a unary one, if nothing is saved.
struct UnaryGradient {
  enum Saves { nothing, input, output } saves;
  const char* kernel;
};

// What a Partial computes with. Arrays that it does not use, by its flags, are undefined.
struct BinaryValues {
  NDArray gradient;  // of y
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

// Record on the tape how y was made, if an operand needs a gradient.
void record_unary(const char* op, NDArray& y, const NDArray& x, UnaryGradient gradient);
void record_binary(const char* op, NDArray& y, const Operand& a, const Operand& b,
                   const BinaryGradient& gradient);

}  // namespace heddle::operators_detail
