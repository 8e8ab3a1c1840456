// Kernel types of take, embedding and one_hot. indices are integers of any strides.
#pragma once

#include <heddle/kernel_context.h>
#include <heddle/ndarray.h>

namespace heddle {

// For take. x and y are contiguous; y has x's shape with `axis` replaced by the shape of indices. Errors
// begin with `op`.
using TakeKernel = void(const KernelContext& context, const char* op, const NDArray& x,
                        const NDArray& indices, const NDArray& y, int axis);

// For take_gradient, the gradient of take: adds each entry of gradient (contiguous) to x (contiguous) at its
// index, in the order of the indices.
using TakeGradientKernel = void(const KernelContext& context, const NDArray& gradient, const NDArray& indices,
                                const NDArray& x, int axis);

// For embedding: y = weight[indices]. weight and y are contiguous, no index is negative. Errors name `op`.
using EmbeddingKernel = void(const KernelContext& context, const char* op, const NDArray& weight,
                             const NDArray& indices, const NDArray& y);

// For one_hot. y is contiguous, of labels' shape and one more axis.
using OneHotKernel = void(const KernelContext& context, const NDArray& labels, const NDArray& y);

}  // namespace heddle
