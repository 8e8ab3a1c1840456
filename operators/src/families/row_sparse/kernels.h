// Kernel types of row-sparse arrays. A kernel checks the rows and the count of each array that it reads. Each
// writes rows, values and count of the result y, whose capacity suffices.
#pragma once

#include <span>

#include <heddle/kernel_context.h>
#include <heddle/row_sparse.h>

namespace heddle {

// y = zeros plus values[i] at row rows[i]. rows: integers of any shape and strides; values: f32 or f64, contiguous,
// one row for each of rows. Errors name `op`, a literal. For row_sparse.
using RowSparseKernel = void(const KernelContext& context, const char* op, const NDArray& rows,
                             const NDArray& values, const RowSparse& y);

// y has the rows of x that are in `rows`. x: contiguous. For retain.
using RetainKernel = void(const KernelContext& context, const NDArray& x, const NDArray& rows,
                          const RowSparse& y);

// y has the rows of the row-sparse x that are in `rows`. For retain_rows.
using RetainRowsKernel = void(const KernelContext& context, const RowSparse& x, const NDArray& rows,
                              const RowSparse& y);

// y = the sum of all arrays, which are f32 or f64. For sum_rows.
using SumRowsKernel = void(const KernelContext& context, std::span<const RowSparse> arrays,
                           const RowSparse& y);

// dense += x. For add_rows.
using AddRowsKernel = void(const KernelContext& context, const NDArray& dense, const RowSparse& x);

}  // namespace heddle
