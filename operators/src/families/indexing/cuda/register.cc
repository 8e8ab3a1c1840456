// Registers the kernels of take, gather, scatter and masks for GPUs.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include <heddle/array_error.h>

#include "core/data_error.h"
#include "core/kernel_table.h"
#include "cuda/arrays.h"
#include "cuda/data_fault.h"
#include "cuda/scratch.h"
#include "families/indexing/cuda/kernels.h"
#include "families/indexing/kernels.h"
#include "families/indexing/scatter_kernels.h"

namespace heddle::cuda_kernels {
namespace {

using check::AccessKind;

// An array as (outer, size, inner), in which `size` is that of the axis.
struct Blocks {
  Blocks(const Shape& shape, int axis) : size(shape[axis]) {
    for (int d = 0; d < axis; ++d) outer *= shape[d];
    for (int d = axis + 1; d < shape.size(); ++d) inner *= shape[d];
  }
  std::int64_t outer = 1, size, inner = 1;
};

int bytes_of(const NDArray& array) { return static_cast<int>(size_of(array.dtype())); }

// Strides with 0 for the axes of size 1 that broadcast to `shape`.
void broadcast_strides(const Shape& from, const Strides& strides, const Shape& shape, long long* result) {
  for (int d = 0; d < shape.size(); ++d) result[d] = from[d] == 1 && shape[d] != 1 ? 0 : strides[d];
}

void take_entries(const KernelContext& context, const char* op, const NDArray& x, const NDArray& indices,
                  const NDArray& y, int axis, bool from_end) {
  if (indices.size() == 0) return;
  const Blocks blocks(x.shape(), axis);
  const DataFault fault(context);
  const Indices at = index_list(indices, blocks.size, from_end, fault.slot());
  // No entry has an element: then the size of the axis does not matter, indices are checked all the same.
  check_launch(context, launch_take(context.stream().native(), at, blocks.outer, blocks.inner, bytes_of(x),
                                    read_address(x), written_address(y)));
  fault.check(context, index_refusal(op, indices, blocks.size));
}

void take_kernel(const KernelContext& context, const char* op, const NDArray& x, const NDArray& indices,
                 const NDArray& y, int axis) {
  take_entries(context, op, x, indices, y, axis, true);
}

void embedding_kernel(const KernelContext& context, const char* op, const NDArray& weight,
                      const NDArray& indices, const NDArray& y) {
  take_entries(context, op, weight, indices, y, 0, false);
}

void one_hot_kernel(const KernelContext& context, const NDArray& labels, const NDArray& y) {
  if (labels.size() == 0) return;
  const std::int64_t classes = y.shape()[y.ndim() - 1];
  unsigned long long one = 0;
  visit_dtype(y.dtype(), [&]<class T>() {
    const T value = Scalar(1).as<T>();
    std::memcpy(&one, &value, std::min(sizeof one, sizeof value));
  });
  const DataFault fault(context);
  const Indices at = index_list(labels, classes, false, fault.slot());
  check_launch(context, launch_one_hot(context.stream().native(), at, bytes_of(y), one, written_address(y)));
  fault.check(context, index_refusal("one_hot", labels, classes));
}

void gather_kernel(const KernelContext& context, const char* op, const NDArray& x, const NDArray& indices,
                   const NDArray& y, int axis) {
  if (indices.size() == 0) return;
  const std::int64_t bound = x.shape()[axis];
  const DataFault fault(context);
  Indices at = index_list(indices, bound, true, fault.slot());
  if (y.size() == 0 || x.size() == 0) {
    check_launch(context, launch_check(context.stream().native(), at));
  } else {
    Strided from = strided(x, AccessKind::read);
    long long places[kMostDims];
    broadcast_strides(x.shape(), x.strides(), y.shape(), from.strides);
    from.strides[axis] = x.strides()[axis];
    broadcast_strides(indices.shape(), indices.strides(), y.shape(), at.array.strides);
    broadcast_strides(indices.shape(), contiguous_strides(indices.shape()), y.shape(), places);
    check_launch(context, launch_gather(context.stream().native(), from, at, places,
                                        strided(y, AccessKind::write), axis));
  }
  fault.check(context, index_refusal(op, indices, bound));
}

void flat_index_kernel(const KernelContext& context, const char* op, const std::vector<NDArray>& indices,
                       const Dims& bounds, const NDArray& y) {
  if (y.size() == 0) return;
  const DataFault fault(context);
  FlatIndices job{};
  job.count = static_cast<int>(indices.size());
  for (int k = 0; k < job.count; ++k)
    job.indices[k] = index_list(indices[static_cast<std::size_t>(k)], bounds[k], true, fault.slot());
  job.y = written<long long>(y);
  check_launch(context, launch_flat_indices(context.stream().native(), job));
  std::vector<DType> dtypes;
  for (const NDArray& one : indices) dtypes.push_back(one.dtype());
  fault.check(context, [op, dtypes, bounds, shape = indices.front().shape()](const FaultSlot& found) {
    const DType dtype = dtypes[static_cast<std::size_t>(found.kind)];
    refuse_index(op, text_of(found.value, dtype), found.place % element_count(shape), shape,
                 bounds[found.kind]);
  });
}

void run_scatter(const KernelContext& context, const char* op, const ScatterJob& job) {
  if (job.source.sizes[job.axis] > 1ll << 32)
    throw Error(with_call_site(std::string(op) + ": more than 2^32 indices"));
  const Scratch space(context, scatter_bytes(job));
  check_launch(context, launch_scatter(context.stream().native(), job, space.as()));
}

// Whether each line along the axis has the same indices.
bool same_for_all(const NDArray& indices, const NDArray& source, int axis) {
  for (int d = 0; d < source.ndim(); ++d)
    if (d != axis && indices.strides()[d] != 0 && indices.shape()[d] != 1) return false;
  return indices.shape()[axis] == source.shape()[axis];
}

// Elements are written as they come: if an index is out of range, the others are written.
void scatter_kernel(const KernelContext& context, const char* op, const NDArray& indices,
                    const NDArray& source, const NDArray& y, int axis, Scatter how) {
  if (indices.size() == 0) return;
  const std::int64_t bound = y.shape()[axis];
  const DataFault fault(context);
  ScatterJob job{};
  job.indices = index_list(indices, bound, true, fault.slot());
  if (source.size() == 0 || y.size() == 0) {
    check_launch(context, launch_check(context.stream().native(), job.indices));
    return fault.check(context, index_refusal(op, indices, bound));
  }
  job.shared = same_for_all(indices, source, axis);
  // Shared indices are the same along all axes but `axis`: only the first ones along the others are read.
  const std::int64_t step = job.shared ? contiguous_strides(indices.shape())[axis] : 1;
  job.source = strided(source, AccessKind::read);
  job.y = strided(y, AccessKind::write);
  job.axis = axis;
  job.how = static_cast<unsigned char>(how);
  if (job.shared) {
    for (int d = 0; d < source.ndim(); ++d)
      if (d != axis) job.indices.array.sizes[d] = 1;
  } else {
    broadcast_strides(indices.shape(), indices.strides(), source.shape(), job.indices.array.strides);
    broadcast_strides(indices.shape(), contiguous_strides(indices.shape()), source.shape(), job.places);
  }
  run_scatter(context, op, job);
  fault.check(context, index_refusal(op, indices, bound, step));
}

Strided three_axes(const NDArray& array, std::int64_t outer, std::int64_t size, std::int64_t inner,
                   AccessKind touch) {
  return {address(array, touch),
          3,
          {outer, size, inner},
          {size * inner, inner, 1},
          static_cast<unsigned char>(array.dtype())};
}

void take_gradient_kernel(const KernelContext& context, const NDArray& gradient, const NDArray& indices,
                          const NDArray& x, int axis) {
  if (indices.size() == 0) return;
  const Blocks blocks(x.shape(), axis);
  const DataFault fault(context);
  ScatterJob job{};
  job.indices = index_list(indices, blocks.size, true, fault.slot());
  if (gradient.size() == 0 || x.size() == 0) {
    check_launch(context, launch_check(context.stream().native(), job.indices));
  } else {
    job.shared = true;
    job.source = three_axes(gradient, blocks.outer, indices.size(), blocks.inner, AccessKind::read);
    job.y = three_axes(x, blocks.outer, blocks.size, blocks.inner, AccessKind::write);
    job.axis = 1;
    job.how = static_cast<unsigned char>(Scatter::add);
    run_scatter(context, "take", job);
  }
  fault.check(context, index_refusal("take", indices, blocks.size));
}

template <bool into>
void masked_kernel(const KernelContext& context, const char* op, const NDArray& mask, const NDArray& x,
                   const NDArray& y, bool exact) {
  const DataFault fault(context);
  const Scratch space(context, mask_bytes(mask.size()));
  MaskJob job{};
  job.mask = static_cast<const unsigned char*>(read_address(mask));
  job.count = mask.size();
  job.room = (into ? x : y).size();
  job.x = read_address(x);
  job.y = written_address(y);
  job.element_bytes = bytes_of(y);
  job.into = into;
  job.exact = exact;
  job.slot = fault.slot();
  check_launch(context, launch_masked(context.stream().native(), job, space.as()));
  fault.check(context, [op, room = job.room](const FaultSlot& found) {
    refuse_mask(op, static_cast<std::int64_t>(found.value), room);
  });
}

void nonzero_kernel(const KernelContext& context, const NDArray& x, const NDArray& y) {
  const DataFault fault(context);
  const Scratch space(context, mask_bytes(x.size()));
  NonzeroJob job{};
  job.mask = static_cast<const unsigned char*>(read_address(x));
  job.dims = x.ndim();
  for (int d = 0; d < x.ndim(); ++d) job.sizes[d] = x.shape()[d];
  job.count = x.size();
  job.room = y.shape()[1];
  job.y = static_cast<long long*>(written_address(y));
  job.strides[0] = y.strides()[0];
  job.strides[1] = y.strides()[1];
  job.slot = fault.slot();
  check_launch(context, launch_nonzero(context.stream().native(), job, space.as()));
  fault.check(context, [room = job.room](const FaultSlot& found) {
    refuse_mask("nonzero", static_cast<std::int64_t>(found.value), room);
  });
}

}  // namespace
}  // namespace heddle::cuda_kernels

namespace heddle {

HEDDLE_CUDA_KERNELS(indexing) {
  using namespace cuda_kernels;
  table.add<TakeKernel>("take", DeviceKind::cuda, take_kernel);
  table.add<TakeGradientKernel>("take_gradient", DeviceKind::cuda, take_gradient_kernel);
  table.add<EmbeddingKernel>("embedding", DeviceKind::cuda, embedding_kernel);
  table.add<OneHotKernel>("one_hot", DeviceKind::cuda, one_hot_kernel);
  table.add<GatherKernel>("gather", DeviceKind::cuda, gather_kernel);
  table.add<ScatterKernel>("scatter", DeviceKind::cuda, scatter_kernel);
  table.add<FlatIndexKernel>("flat_index", DeviceKind::cuda, flat_index_kernel);
  table.add<MaskedKernel>("masked_select", DeviceKind::cuda, masked_kernel<false>);
  table.add<MaskedKernel>("masked_scatter", DeviceKind::cuda, masked_kernel<true>);
  table.add<NonzeroKernel>("nonzero", DeviceKind::cuda, nonzero_kernel);
}

}  // namespace heddle
