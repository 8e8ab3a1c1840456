// The kernels of products of 8-bit integers that a device provides.
#pragma once

#include <heddle/kernel_context.h>
#include <heddle/ndarray.h>
#include <heddle/quantized/products.h>

#include "families/conv/kernels.h"

namespace heddle {

// Arrays are contiguous; x is f32 (rows, in), y f32 (rows, out).
using QuantizedLinearKernel = void(const KernelContext& context, const NDArray& x,
                                   const QuantizedWeights& weights, bool relu, const NDArray& y);
// Arrays are contiguous; x and y are f32 images as in ConvForwardKernel.
using QuantizedConvKernel = void(const KernelContext& context, const ConvProblem& problem, const NDArray& x,
                                 const QuantizedWeights& weights, const NDArray& y);

}  // namespace heddle
