// What the optimizers ask of a device.
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

// An SGD step of the rows that grad has; the other rows of weight and velocity are not touched.
using SgdRowsKernel = void(const KernelContext& context, const NDArray& weight, const NDArray& velocity,
                           const RowSparse& grad, const SgdStep& step);

using AdamKernel = void(const KernelContext& context, const NDArray& weight, const NDArray& mean,
                        const NDArray& variance, const NDArray& grad, const AdamStep& step);

// The same for the rows that grad has, each of which counts its updates in row_updates and is unbiased by them: those
// of `step` are not used. Counts of -1 stand for `earlier` updates of the whole weight.
using AdamRowsKernel = void(const KernelContext& context, const NDArray& weight, const NDArray& mean,
                            const NDArray& variance, const NDArray& row_updates, const RowSparse& grad,
                            const AdamStep& step, std::int64_t earlier);

}  // namespace heddle
