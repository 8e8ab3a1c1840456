// Rules of the elementwise operators: dtypes, shapes and the push, without gradients.
#pragma once

#include <heddle/elementwise.h>

#include "core/kernel_table.h"
#include "families/elementwise/kernels.h"

namespace heddle::operators_detail {

// How an operator's dtypes follow from the common dtype of its operands, called "it" below.
enum class Family {
  arithmetic,  // the result has it
  no_bool,     // the result has it; bool is refused
  power,       // as no_bool; of integers, a negative number as the second operand is refused
  floating,    // the result has it if it is floating, else f64
  bits,        // the result has it; floating ones are refused
  integers,    // the result has it; floating ones and bool are refused
  comparison,  // the result is bool
};

struct Dtypes {
  DType compute, result;
};

// NumPy's dtypes for a binary operator. Throws InvalidArgument, as for two scalars or undefined arrays.
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

// Push the kernel on operands of any dtype and shape.
NDArray push_unary(const Kernel<UnaryKernel>& kernel, const NDArray& x, DType compute, DType result);
NDArray push_binary(const Kernel<BinaryKernel>& kernel, const Operand& a, const Operand& b, Dtypes dtypes);
void push_binary_into(const Kernel<BinaryKernel>& kernel, const Operand& a, const Operand& b, DType compute,
                      const NDArray& y);

}  // namespace heddle::operators_detail
