// The gradients of elementwise operators, and how they are recorded.
#pragma once

#include <cstdint>

#include <heddle/elementwise.h>

#include "families/elementwise/elementwise_rule.h"

namespace heddle::operators_detail {

// The gradient of an operator y = f(x). A default-constructed one means that there is no gradient.
struct UnaryGradient {
  enum Saves : std::uint8_t { nothing, x, y };
  constexpr bool exists() const { return of; }

  // Computes the gradient of x from the gradient of y and the saved array, by operators, which have gradients
  // themselves.
  NDArray (*of)(const NDArray& gradient, const NDArray& saved) = nullptr;
  Saves saves = nothing;
  // A binary kernel that computes the same from the gradient and the saved array in one op, without a
  // gradient of its own; null if there is none.
  const char* kernel = nullptr;
};

// What Partial::of is called with. Arrays that the Partial does not save are undefined.
struct BinaryValues {
  NDArray gradient;  // gradient of y
  Operand a, b;
  NDArray y;
};

// The gradient of one operand of y = f(a, b).
struct Partial {
  enum Saves : std::uint8_t {
    nothing = 0,
    a = 1,
    b = 2,
    ab = a | b,
    y = 4,
    ay = a | y,
    by = b | y,
    aby = ab | y
  };
  // Computes the gradient by operators. It is not yet summed to the shape of the operand.
  NDArray (*of)(const BinaryValues& values) = nullptr;
  Saves saves = nothing;
};

// The gradients of a and b. A default-constructed one means that there are none.
struct BinaryGradient {
  constexpr bool exists() const { return left.of; }
  Partial left{}, right{};
};

// unary() and binary() check the arguments, push the op, and record it on the tape if it has a gradient and
// an operand needs one.
NDArray unary(const Kernel<UnaryKernel>& kernel, Family family, const NDArray& x,
              const UnaryGradient& gradient);
NDArray binary(const Kernel<BinaryKernel>& kernel, Family family, const Operand& a, const Operand& b,
               const BinaryGradient& gradient);
// binary() for Family::comparison.
NDArray compare(const Kernel<BinaryKernel>& kernel, const Operand& a, const Operand& b);
// Prepares an operand of compare: a scalar above the int64 range is compared as infinity, since in f64 some
// integers of the array would be rounded up to it.
Operand comparable(const Operand& operand, const Operand& other);

// Returns 0, the gradient of an operator that is constant between steps; it is on the tape if the gradient g
// is.
NDArray no_change(const NDArray& g);
NDArray no_change(const NDArray& g, const Shape& shape, DType dtype);

// Records on the tape that y does not change with x.
void record_constant(const char* op, NDArray& y, const NDArray& x);

}  // namespace heddle::operators_detail
