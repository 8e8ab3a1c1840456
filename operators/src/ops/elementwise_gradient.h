// How elementwise operators put themselves on the tape.
#pragma once

#include <heddle/elementwise.h>

namespace heddle::operators_detail {

// Of y = f(x): the gradient is kernel(g, saved), a binary operator, or kernel(g), a unary one, if nothing is saved.
struct UnaryGradient {
  enum Saves { nothing, input, output } saves;
  const char* kernel;
};

// What a partial derivative may use; arrays it did not ask for are undefined.
struct BinaryValues {
  NDArray gradient;  // of y
  Operand a, b;
  NDArray y;
};

// The gradient of one operand, not yet summed to its shape, and the arrays that must be kept for it.
struct Partial {
  NDArray (*of)(const BinaryValues& values);
  bool uses_a = false, uses_b = false, uses_y = false;
};

struct BinaryGradient {
  Partial left, right;
};

extern const BinaryGradient kAddGradient, kSubtractGradient, kMultiplyGradient, kDivideGradient,
    kPowerGradient, kMaximumGradient, kMinimumGradient;

// Record y if an operand needs it.
void record_unary(const char* op, NDArray& y, const NDArray& x, UnaryGradient gradient);
void record_binary(const char* op, NDArray& y, const Operand& a, const Operand& b,
                   const BinaryGradient& gradient);

}  // namespace heddle::operators_detail
