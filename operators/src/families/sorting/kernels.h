// Kernel types of the operators that sort and search. NaN is above every number.
#pragma once

#include <heddle/kernel_context.h>
#include <heddle/ndarray.h>

namespace heddle {

// Lines along the last axis: values, or indices (i64), or both; one of them may be undefined. Arrays are contiguous. Equal
// elements stay in their order if indices are wanted.
using SortKernel = void(const KernelContext& context, const NDArray& x, const NDArray& values,
                        const NDArray& indices, bool descending);

// The elements of ranks first, first + 1 ... of each line, as many as the last axis of values and indices has room for.
using SelectKernel = void(const KernelContext& context, const NDArray& x, const NDArray& values,
                          const NDArray& indices, std::int64_t first, bool descending);

// y (i64, contiguous): how many elements of `sorted` (one axis, contiguous) are below a value, or with `right` not above it.
using SearchKernel = void(const KernelContext& context, const NDArray& sorted, const NDArray& values,
                          const NDArray& y, bool right);

// x has one axis. The first number[0] entries of the others become: the distinct values in rising order, the index of the
// first element of each, how often it comes; inverse: which of them each element is. All i64 but values. Indices, inverse and
// counts are all undefined where only the values are wanted.
using UniqueKernel = void(const KernelContext& context, const NDArray& x, const NDArray& values,
                          const NDArray& indices, const NDArray& inverse, const NDArray& counts,
                          const NDArray& number, bool equal_nan);

// counts (i64): how many elements of x are between neighbours of edges, which rise in equal steps. Both are f32 or f64. The last
// edge belongs to the last bin.
using HistogramKernel = void(const KernelContext& context, const NDArray& x, const NDArray& edges,
                             const NDArray& counts);

// y (i64): how often each of 0, 1, ... comes in x (i64, one axis, contiguous). Throws Error for one that y has no room for.
using BincountKernel = void(const KernelContext& context, const NDArray& x, const NDArray& y);

}  // namespace heddle
