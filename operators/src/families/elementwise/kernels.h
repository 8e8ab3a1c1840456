// Kernel types of the elementwise operators. Arrays are broadcast to y's shape before; y may be one of them
// (in place).
#pragma once

#include <heddle/elementwise.h>
#include <heddle/kernel_context.h>

namespace heddle {

// x has y's dtype, except for operators whose y is bool.
using UnaryKernel = void(const KernelContext& context, const NDArray& x, const NDArray& y);

// a and b have one dtype (a scalar has the other's). y has it too, except for operators whose y is bool.
using BinaryKernel = void(const KernelContext& context, const Operand& a, const Operand& b, const NDArray& y);

// x and y have one dtype; a bound beyond its range has no effect.
using ClipKernel = void(const KernelContext& context, const NDArray& x, Scalar low, Scalar high,
                        const NDArray& y);

// condition is bool; a and b have y's dtype.
using WhereKernel = void(const KernelContext& context, const NDArray& condition, const Operand& a,
                         const Operand& b, const NDArray& y);

// y, contiguous, is x with 0 where the index along the last axis minus that along the one before is above k;
// or below k, if the upper triangle is kept.
using TriangleKernel = void(const KernelContext& context, const NDArray& x, const NDArray& y, std::int64_t k,
                            bool lower);

}  // namespace heddle
