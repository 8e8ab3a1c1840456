// Rules of the elementwise operators: dtypes, shapes and the push, without gradients.
#pragma once

#include <heddle/elementwise.h>

#include "core/kernel_table.h"
#include "families/elementwise/kernels.h"

namespace heddle::operators_detail {

// How the dtype of an operator's result follows from the common dtype of its operands, and which dtypes it
// takes.
enum class Family {
  arithmetic,  // the result has the common dtype
  no_bool,     // the result has the common dtype; bool is refused
  power,       // as no_bool; integers with a negative number as exponent are refused
  floating,    // the result has the common dtype if that is floating, else f64
  bits,        // the result has the common dtype; floating dtypes are refused
  integers,    // the result has the common dtype; floating dtypes and bool are refused
  comparison,  // the result is bool
};

struct Dtypes {
  DType compute, result;
};

// NumPy's dtypes for a binary operator. Throws InvalidArgument, for example for two scalars or for an
// undefined array.
Dtypes binary_dtypes(const char* op, Family family, const Operand& a, const Operand& b);
DType unary_dtype(const char* op, Family family, DType x);

inline bool is_signed_integer(DType dtype) {
  return !is_floating(dtype) && !is_unsigned(dtype) && dtype != DType::boolean;
}

// The common dtype of an array and a scalar. Throws InvalidArgument for an integer that does not fit.
DType weak_dtype(const char* op, DType array, Scalar scalar);

// The order of kinds: bool, unsigned integers, signed ones, floating ones. A result fits an array whose dtype
// is of its kind or of a later one.
int kind_order(DType dtype);

// Returns the operand detached, converted to `dtype` and broadcast to `shape`.
Operand prepared(const Operand& operand, DType dtype, const Shape& shape);

// The result shape of two operands. Throws InvalidArgument for two scalars.
Shape binary_shape(const char* op, const Operand& a, const Operand& b);

// The push functions push the kernel on operands of any dtype and shape.
NDArray push_unary(const Kernel<UnaryKernel>& kernel, const NDArray& x, DType compute, DType result);
NDArray push_binary(const Kernel<BinaryKernel>& kernel, const Operand& a, const Operand& b, Dtypes dtypes);
void push_binary_into(const Kernel<BinaryKernel>& kernel, const Operand& a, const Operand& b, DType compute,
                      const NDArray& y);

}  // namespace heddle::operators_detail
