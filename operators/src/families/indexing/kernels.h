// Kernel types of the operators that look elements up. indices are integers of any strides.
#pragma once

#include <heddle/kernel_context.h>
#include <heddle/ndarray.h>

namespace heddle {

// x and y are contiguous; y has x's shape with `axis` replaced by the shape of indices. Errors are in the name of `op`. For take.
using TakeKernel = void(const KernelContext& context, const char* op, const NDArray& x,
                        const NDArray& indices, const NDArray& y, int axis);

// The gradient of take: each entry of gradient (contiguous) is added to x (contiguous) at its index, in the order
// of the indices. For take_gradient.
using TakeGradientKernel = void(const KernelContext& context, const NDArray& gradient, const NDArray& indices,
                                const NDArray& x, int axis);

// y = weight[indices]: weight and y are contiguous, no index is negative. For embedding.
using EmbeddingKernel = void(const KernelContext& context, const NDArray& weight, const NDArray& indices,
                             const NDArray& y);

// y is contiguous: labels' shape and one axis more. For one_hot.
using OneHotKernel = void(const KernelContext& context, const NDArray& labels, const NDArray& y);

}  // namespace heddle
