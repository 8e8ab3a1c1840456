// Kernel types of the operators that sort and search. NaN is above every number.
#pragma once

#include <heddle/kernel_context.h>
#include <heddle/ndarray.h>

namespace heddle {

// Sorts lines along the last axis of x. Writes values, or indices (i64), or both; one of them may be
// undefined. Arrays are contiguous. The sort is stable if indices are wanted.
using SortKernel = void(const KernelContext& context, const NDArray& x, const NDArray& values,
                        const NDArray& indices, bool descending);

// Selects the elements of ranks first, first + 1, ... of each line, as many as the last axis of values and
// indices has room for.
using SelectKernel = void(const KernelContext& context, const NDArray& x, const NDArray& values,
                          const NDArray& indices, std::int64_t first, bool descending);

// y (i64, contiguous): for each value the number of elements of `sorted` (one axis, contiguous) that are
// below it, or with `right` not above it.
using SearchKernel = void(const KernelContext& context, const NDArray& sorted, const NDArray& values,
                          const NDArray& y, bool right);

// x has one axis. Writes the number of distinct values to number[0], and that many entries to: values, the
// distinct values in ascending order; indices, the index of the first element of each; counts, how often each
// occurs. inverse: the index in values of each element of x. All but values are i64. indices, inverse and
// counts are undefined if only the values are wanted.
using UniqueKernel = void(const KernelContext& context, const NDArray& x, const NDArray& values,
                          const NDArray& indices, const NDArray& inverse, const NDArray& counts,
                          const NDArray& number, bool equal_nan);

// counts (i64): the number of elements of x in each bin between adjacent edges, which ascend in equal steps.
// x and edges are f32 or f64. The last edge belongs to the last bin.
using HistogramKernel = void(const KernelContext& context, const NDArray& x, const NDArray& edges,
                             const NDArray& counts);

// For histogram_edges and checked_fractions, of GPUs alone: on the CPU the rules have these functions. least and most have one element, of
// the dtype of the edges, f32 or f64. y (f64) becomes x.
using HistogramEdgesKernel = void(const KernelContext& context, const NDArray& least, const NDArray& most,
                                  const NDArray& edges);
using CheckedFractionsKernel = void(const KernelContext& context, const NDArray& x, const NDArray& y);

// Throw the errors of histogram() and quantile() for values.
[[noreturn]] void refuse_infinite_bounds(double low, double high);
[[noreturn]] void refuse_order_of_bounds(double low, double high);
[[noreturn]] void refuse_fraction(double q);

// y[i] (i64) = how often i occurs in x (i64, one axis, contiguous). Throws Error for a value that y has no
// room for.
using BincountKernel = void(const KernelContext& context, const NDArray& x, const NDArray& y);

}  // namespace heddle
