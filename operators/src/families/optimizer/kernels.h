// Kernel types of the optimizers.
#pragma once

#include <cstdint>

#include <heddle/kernel_context.h>
#include <heddle/ndarray.h>
#include <heddle/optimizer_update.h>
#include <heddle/row_sparse.h>

namespace heddle {

using operators_detail::AdamStep, operators_detail::SgdStep;

// velocity is undefined without momentum. All arrays are contiguous and of one shape and dtype.
using SgdKernel = void(const KernelContext& context, const NDArray& weight, const NDArray& velocity,
                       const NDArray& grad, const SgdStep& step);

// An SGD step for the rows that grad has; the other rows of weight and velocity are not touched.
using SgdRowsKernel = void(const KernelContext& context, const NDArray& weight, const NDArray& velocity,
                           const RowSparse& grad, const SgdStep& step);

using AdamKernel = void(const KernelContext& context, const NDArray& weight, const NDArray& mean,
                        const NDArray& variance, const NDArray& grad, const AdamStep& step);

// An Adam step for the rows that grad has. Each row counts its updates in row_updates, and its bias is
// corrected by that count, not by the fields of `step`. If the first count is -1, the counts are not set yet:
// all rows have had `earlier` updates.
using AdamRowsKernel = void(const KernelContext& context, const NDArray& weight, const NDArray& mean,
                            const NDArray& variance, const NDArray& row_updates, const RowSparse& grad,
                            const AdamStep& step, std::int64_t earlier);

}  // namespace heddle
